//! One object's tree on its way to disk.
//!
//! New pointers come in as *updates* of a level, by block number. Level by level the indirect
//! blocks above them are built: the old contents, or what a hole or a smaller tree stands for,
//! with the updates put in. Subtrees that were freed as a whole are remembered, so that an
//! indirect block which is written again after that begins empty and gives up nothing twice.

use super::writer::Writer;
use crate::error::DmuError;
use crate::object::Object;
use cenote_base::{BlockId, Bookmark, Level, SECTOR_SIZE, Txg};
use cenote_cache::{Block, BlockBuffer};
use cenote_ondisk::block_pointer::BLOCK_POINTER_SIZE;
use cenote_ondisk::dnode::{FLAG_USED_BYTES, LEVELS_MAX};
use cenote_ondisk::{BlockPointer, Dnode};
use std::collections::{BTreeMap, BTreeSet};

/// Stands for the spill block among an object's blocks of level 0.
pub(super) const SPILL: u64 = u64::MAX;

/// A tree being written.
#[derive(Debug)]
pub(super) struct Job {
    /// The object as it is on disk; of a new one, with a dnode of holes.
    pub(super) base: Object,
    /// The dnode as it will be.
    pub(super) new: Dnode,
    /// New pointers by level and block.
    pub(super) updates: Vec<BTreeMap<u64, BlockPointer>>,
    /// By level, what was freed with all below it and is accounted for already.
    pub(super) freed: Vec<BTreeSet<u64>>,
    /// The bytes of space that the object uses, as it goes.
    pub(super) used: u64,
    /// The indirect block that the last old pointer was looked up in.
    last_indirect: Option<(u64, Option<Block>)>,
}

/// Levels that a tree needs to reach block `last`.
fn levels_needed(dnode: &Dnode, last: BlockId) -> u8 {
    let pointers = dnode.block_pointers.len() as u64;
    let fits = |levels: u8| {
        let shift = dnode.indirect_fanout_shift() * u32::from(levels - 1);
        last.0.checked_shr(shift).unwrap_or(0) < pointers
    };
    (1..LEVELS_MAX)
        .find(|levels| fits(*levels))
        .unwrap_or(LEVELS_MAX)
}

impl Job {
    /// A job that makes `base` into an object with the dnode `new`, whose tree is still the old.
    pub(super) fn new(base: Object, new: Dnode) -> Self {
        let mut new = new;
        let old = base.dnode();
        let used = old.used_bytes();
        let needed = levels_needed(&new, new.block_id_max);
        // What is received as it is stored elsewhere has the levels that it has there.
        new.levels = old.levels.max(new.levels).max(needed);
        let mut job = Self {
            updates: vec![BTreeMap::new(); usize::from(new.levels)],
            freed: vec![BTreeSet::new(); usize::from(new.levels)],
            new,
            used,
            last_indirect: None,
            base,
        };
        job.assert_reaches();
        job.take_over_pointers();
        job
    }

    /// Asserts that the dnode has as many levels as a tree may have, and fanout for each: else its
    /// last block has no place.
    fn assert_reaches(&self) {
        let (levels, fanout) = (self.new.levels, self.new.indirect_fanout_shift());
        assert!((1..=LEVELS_MAX).contains(&levels), "{levels} levels");
        assert!(levels == 1 || fanout > 0, "indirect blocks hold pointers");
    }

    /// When the tree grows, the dnode's pointers move into the first new indirect block.
    fn take_over_pointers(&mut self) {
        let old = self.base.dnode();
        self.new.block_pointers = old.block_pointers.clone();
        if self.new.levels == old.levels {
            return;
        }
        let level = usize::from(old.levels - 1);
        let pointers = (0..).zip(&old.block_pointers);
        let in_use = pointers.filter(|(_, pointer)| **pointer != BlockPointer::HOLE);
        self.updates[level] = in_use.map(|(id, pointer)| (id, *pointer)).collect();
        self.new.block_pointers.fill(BlockPointer::HOLE);
    }

    /// Whether the block is below something that was freed, or was freed itself.
    pub(super) fn is_freed(&self, level: usize, block: u64) -> bool {
        let fanout = self.new.indirect_fanout_shift();
        let mut above = (level..self.freed.len()).zip(0_u32..);
        above.any(|(at, up)| {
            let id = block.checked_shr(fanout * up).unwrap_or(0);
            self.freed[at].contains(&id)
        })
    }

    /// The pointer on disk to a block, with its birth if it is a hole that has one.
    pub(super) fn old_pointer(&mut self, level: u8, block: u64) -> Result<BlockPointer, DmuError> {
        let old = self.base.dnode();
        if level + 1 >= old.levels {
            let pointers = &old.block_pointers;
            let index = usize::try_from(block).ok();
            let found = index.and_then(|index| pointers.get(index));
            let found = found.filter(|_| level + 1 == old.levels);
            return Ok(found.copied().unwrap_or(BlockPointer::HOLE));
        }
        let fanout = old.indirect_fanout_shift();
        let parent = block >> fanout;
        let index = usize::try_from(block & ((1 << fanout) - 1)).expect("below 1024");
        if level > 0 {
            let contents = self.old_indirect(level + 1, parent)?;
            return Ok(contents.map_or(BlockPointer::HOLE, |contents| entry(&contents, index)));
        }
        if self
            .last_indirect
            .as_ref()
            .is_none_or(|(id, _)| *id != parent)
        {
            let contents = self.old_indirect(1, parent)?;
            self.last_indirect = Some((parent, contents));
        }
        let contents = self
            .last_indirect
            .as_ref()
            .and_then(|(_, block)| block.as_ref());
        Ok(contents.map_or(BlockPointer::HOLE, |contents| entry(contents, index)))
    }

    /// Reads the indirect blocks above some blocks of level 0 in one go. A sync of writes here and
    /// there in a large object would otherwise wait for each.
    pub(super) fn read_ahead_parents(&self, blocks: impl Iterator<Item = u64>) {
        if self.base.dnode().levels < 2 {
            return;
        }
        let fanout = self.base.dnode().indirect_fanout_shift();
        let mut parents: Vec<u64> = blocks.map(|block| block >> fanout).collect();
        parents.dedup();
        if parents.len() < 2 {
            return;
        }
        let set = self.base.set();
        let wanted = parents.into_iter().filter_map(|parent| {
            // The reader that needs the block will get the error.
            let pointer = self.base.block_pointer(1, BlockId(parent)).ok()?;
            let bookmark = Bookmark {
                objset: set.id(),
                object: self.base.id(),
                level: Level(1),
                block: BlockId(parent),
            };
            let is_missing = !pointer.is_hole() && !set.cache().has(&pointer);
            is_missing.then_some((pointer, bookmark))
        });
        let wanted: Vec<_> = wanted.collect();
        let keys = set.keys().map(AsRef::as_ref);
        set.cache().fetch(&wanted, keys, set.retention(true));
    }

    /// An indirect block on disk; `None` for a hole.
    fn old_indirect(&self, level: u8, block: u64) -> Result<Option<Block>, DmuError> {
        let pointer = self.base.block_pointer(level, BlockId(block))?;
        match pointer.is_hole() {
            true => Ok(None),
            false => self
                .base
                .read_pointer(&pointer, level, BlockId(block))
                .map(Some),
        }
    }

    /// The contents that an indirect block has before its updates.
    pub(super) fn base_contents(
        &mut self,
        level: u8,
        block: u64,
        writer: &Writer<'_>,
    ) -> Result<BlockBuffer, DmuError> {
        let old = self.base.dnode();
        let size = usize::try_from(self.new.indirect_block_size()).expect("at most 128 KiB");
        let child_size = match level {
            1 => old.data_block_size,
            _ => old.indirect_block_size(),
        };
        let hole = |birth: Txg| self.hole(level - 1, child_size, birth);
        if self.is_freed(usize::from(level), block) {
            let children = match writer.has_hole_births(&self.new) {
                true => hole(writer.txg),
                false => BlockPointer::HOLE,
            };
            return Ok(filled(size, &children));
        }
        if level < old.levels {
            let pointer = self.old_pointer(level, block)?;
            if pointer.is_hole() {
                // A hole stands for holes of the same birth below it.
                let birth = pointer.logical_birth();
                let children = match birth {
                    Txg(0) => BlockPointer::HOLE,
                    birth => self.hole(level - 1, child_size, birth),
                };
                return Ok(filled(size, &children));
            }
            let contents = self.base.read_pointer(&pointer, level, BlockId(block))?;
            return Ok(BlockBuffer::clone(&contents));
        }
        let mut contents = filled(size, &BlockPointer::HOLE);
        if level == old.levels && block == 0 {
            for (index, pointer) in old.block_pointers.iter().enumerate() {
                set_entry(&mut contents, index, pointer);
            }
        }
        Ok(contents)
    }

    /// A hole that remembers its birth (format/2a 1.3).
    pub(super) fn hole(&self, level: u8, size: u64, birth: Txg) -> BlockPointer {
        let mut pointer = BlockPointer::HOLE;
        let sectors = size / SECTOR_SIZE - 1;
        let kind = u64::from(self.new.object_type.0);
        pointer.words[6] = u64::from(level) << 56 | kind << 48 | sectors;
        pointer.words[10] = birth.0;
        pointer
    }

    /// What a hole becomes in the place of `old`.
    pub(super) fn hole_in_place_of(
        &self,
        old: &BlockPointer,
        level: u8,
        size: u64,
        writer: &Writer<'_>,
    ) -> BlockPointer {
        match old.is_hole() {
            true if old.logical_birth() == Txg(0) => BlockPointer::HOLE,
            _ if writer.has_hole_births(&self.new) => self.hole(level, size, writer.txg),
            _ => BlockPointer::HOLE,
        }
    }

    /// Puts `new` in the place of `old`: gives up the old block and counts the space.
    pub(super) fn replace(
        &mut self,
        level: usize,
        block: u64,
        old: &BlockPointer,
        new: &BlockPointer,
        writer: &Writer<'_>,
    ) {
        match self.freed[level].contains(&block) {
            true => self.exchange(&BlockPointer::HOLE, new, writer),
            false => self.exchange(old, new, writer),
        }
    }

    /// Counts a new block and gives up the old one, unless the new one took over its space.
    pub(super) fn exchange(&mut self, old: &BlockPointer, new: &BlockPointer, writer: &Writer<'_>) {
        if old == new {
            return;
        }
        self.used = self.used.saturating_add(writer.space_of(new));
        let has_address = |pointer: &BlockPointer| !pointer.is_hole() && !pointer.is_embedded();
        if has_address(new) && has_address(old) && same_address(old, new) {
            self.used = self.used.saturating_sub(writer.space_of(old));
        } else {
            self.free_block(old, writer);
        }
    }

    /// Puts the pointers of the highest level into the dnode.
    pub(super) fn finish(&mut self, writer: &Writer<'_>) {
        let top = usize::from(self.new.levels - 1);
        let has_grown = self.base.dnode().levels < self.new.levels;
        for (block, new) in std::mem::take(&mut self.updates[top]) {
            let index = usize::try_from(block).expect("the levels reach every block");
            let old = match has_grown {
                true => BlockPointer::HOLE,
                false => self.base.dnode().block_pointers[index],
            };
            self.replace(top, block, &old, &new, writer);
            self.new.block_pointers[index] = new;
        }
        self.new.used = self.used;
        if self.used > 0 {
            self.new.flags |= FLAG_USED_BYTES;
        }
    }
}

/// Whether a block was written in the place of another of this very group. A clone of a block
/// that takes the place of an older clone has its address, too, but another birth.
fn same_address(one: &BlockPointer, two: &BlockPointer) -> bool {
    one.dva(0).vdev() == two.dva(0).vdev()
        && one.dva(0).word1 == two.dva(0).word1
        && one.logical_birth() == two.logical_birth()
}

/// An indirect block of equal pointers.
fn filled(size: usize, pointer: &BlockPointer) -> BlockBuffer {
    let mut contents = BlockBuffer::take(size);
    match *pointer == BlockPointer::HOLE {
        true => contents.fill(0),
        false => {
            let bytes = pointer.encode();
            let entries = contents.chunks_exact_mut(BLOCK_POINTER_SIZE);
            entries.for_each(|entry| entry.copy_from_slice(&bytes));
        }
    }
    contents
}

/// Entry `index` of an indirect block.
pub(super) fn entry(contents: &[u8], index: usize) -> BlockPointer {
    let start = index * BLOCK_POINTER_SIZE;
    BlockPointer::decode(&contents[start..]).expect("an indirect block holds its fanout")
}

pub(super) fn set_entry(contents: &mut [u8], index: usize, pointer: &BlockPointer) {
    let start = index * BLOCK_POINTER_SIZE;
    contents[start..start + BLOCK_POINTER_SIZE].copy_from_slice(&pointer.encode());
}
