//! Whether what a change needs can be read.
//!
//! Syncing replaces the pointer to each block that was written and gives up all that was freed:
//! it reads the indirect blocks above them. Unreadable ones would stop it, and with it the pool.
//! So whoever changes an object in an open group learns of them before, as an error, and the
//! pool goes on without that change. (OpenZFS's transactions read what they hold for the same
//! reason.) What is damaged between the change and its sync still suspends the pool.

use crate::error::DmuError;
use crate::live::Place;
use crate::object::Object;
use cenote_base::{BlockId, Bookmark, Level};
use cenote_ondisk::BlockPointer;
use cenote_ondisk::block_pointer::{BLOCK_POINTER_SIZE, Dva};
use std::collections::HashSet;
use std::sync::Arc;

/// So many indirect blocks are read ahead at once.
const FETCH_COUNT: usize = 16;

/// An indirect block to be looked into.
struct Indirect {
    pointer: BlockPointer,
    level: u8,
    block: u64,
}

impl Object {
    /// Checks that `block` can be given new contents.
    pub(crate) fn check_way_to(&self, block: BlockId) -> Result<(), DmuError> {
        let Some(live) = &self.live else {
            return Ok(());
        };
        live.look(block.0, |place| match place {
            Place::Committed(dnode) => {
                let on_disk = self.committed(Arc::clone(dnode));
                on_disk.data_pointer(block).map(drop)
            }
            // Who wrote or freed it before has checked that.
            Place::Contents(_) | Place::Pointer(_) | Place::Hole => Ok(()),
        })
    }

    /// Checks that the object can be freed with all that it has on disk.
    ///
    /// # Errors
    /// If an indirect block is damaged.
    pub fn check_freeable(&self) -> Result<(), DmuError> {
        self.check_tree(0, u64::MAX)
    }

    /// Checks that the blocks `[start, end)` can be freed.
    pub(crate) fn check_tree(&self, start: u64, end: u64) -> Result<(), DmuError> {
        let Some(live) = &self.live else {
            return Ok(());
        };
        let newest = || live.read().committed.clone();
        let mut looked_at = newest();
        while let Some(dnode) = looked_at {
            let checked = self.committed(Arc::clone(&dnode)).read_tree(start, end);
            if checked.is_ok() {
                return checked;
            }
            // What a sync replaced meanwhile may be given up, and written over.
            looked_at = newest();
            if looked_at
                .as_ref()
                .is_some_and(|now| Arc::ptr_eq(now, &dnode))
            {
                return checked;
            }
        }
        Ok(())
    }

    /// Reads all indirect blocks above the blocks `[start, end)` on disk, each of which stands in
    /// the tree once: one that comes again belongs to a tree that may have no end.
    fn read_tree(&self, start: u64, end: u64) -> Result<(), DmuError> {
        let pointers = (0..).zip(&self.dnode().block_pointers);
        let top = self.dnode().levels - 1;
        let mut stack = self.indirect_in((start, end), top, pointers);
        let mut seen = HashSet::new();
        while let Some(next) = stack.pop() {
            self.check_new(&next, &mut seen)?;
            let contents = self.read_pointer(&next.pointer, next.level, BlockId(next.block))?;
            if next.level == 1 {
                continue;
            }
            let first = next.block << self.dnode().indirect_fanout_shift();
            let entries = contents.chunks_exact(BLOCK_POINTER_SIZE);
            let entries = entries.map(|entry| BlockPointer::decode(entry).expect("128 bytes"));
            let entries: Vec<_> = entries.collect();
            let below = self.indirect_in((start, end), next.level - 1, (first..).zip(&entries));
            if next.level > 2 {
                stack.extend(below);
                continue;
            }
            for block in &below {
                self.check_new(block, &mut seen)?;
            }
            for some in below.chunks(FETCH_COUNT) {
                self.read_all(some)?;
            }
        }
        Ok(())
    }

    /// Checks that an indirect block was not met before.
    fn check_new(&self, block: &Indirect, seen: &mut HashSet<Dva>) -> Result<(), DmuError> {
        let problem = match block.pointer.is_embedded() {
            true => "an indirect block is embedded into its pointer",
            false if seen.insert(block.pointer.dva(0)) => return Ok(()),
            false => "it stands in the tree more than once",
        };
        let (level, block) = (block.level, BlockId(block.block));
        let bookmark = self.bookmark(level, block);
        Err(DmuError::BadTree { bookmark, problem })
    }

    /// Those of these pointers that lead to indirect blocks above `[start, end)`.
    fn indirect_in<'a>(
        &self,
        (start, end): (u64, u64),
        level: u8,
        pointers: impl Iterator<Item = (u64, &'a BlockPointer)>,
    ) -> Vec<Indirect> {
        if level == 0 {
            return Vec::new();
        }
        let span = self.dnode().indirect_fanout_shift() * u32::from(level);
        let (first, last) = (
            start.checked_shr(span).unwrap_or(0),
            end.saturating_sub(1).checked_shr(span).unwrap_or(0),
        );
        let wanted = pointers
            .filter(|(block, pointer)| (first..=last).contains(block) && !pointer.is_hole());
        wanted
            .map(|(block, pointer)| Indirect {
                pointer: *pointer,
                level,
                block,
            })
            .collect()
    }

    fn read_all(&self, blocks: &[Indirect]) -> Result<(), DmuError> {
        let set = self.set();
        let wanted = blocks.iter().map(|block| {
            let bookmark = Bookmark {
                objset: set.id(),
                object: self.id(),
                level: Level(block.level),
                block: BlockId(block.block),
            };
            (block.pointer, bookmark)
        });
        let wanted: Vec<_> = wanted.collect();
        let keys = set.keys().map(AsRef::as_ref);
        set.cache().fetch(&wanted, keys, set.retention(true));
        blocks.iter().try_for_each(|block| {
            let contents = self.read_pointer(&block.pointer, block.level, BlockId(block.block));
            contents.map(drop)
        })
    }
}
