//! Giving up parts of a tree.
//!
//! A range of blocks is freed from the top down: what lies in it as a whole is given up with all
//! below it and becomes one hole, what lies in it in part is looked into. At no time is more
//! than one indirect block of each level in hand.

use super::Writer;
use super::job::{Job, entry};
use crate::error::DmuError;
use cenote_base::{BlockId, Bookmark};
use cenote_cache::Block;
use cenote_ondisk::BlockPointer;
use cenote_ondisk::block_pointer::BLOCK_POINTER_SIZE;

/// A place in a walk: an indirect block, of which the entries from `next` on are still to come.
struct Place {
    contents: Block,
    /// The level of its children.
    level: u8,
    /// The number of its first child.
    first: u64,
    next: usize,
}

/// So many indirect blocks are read ahead at once.
const FETCH_COUNT: usize = 16;

impl Job {
    /// Frees the blocks `[start, end)` that are on disk.
    pub(super) fn free_range(
        &mut self,
        start: u64,
        end: u64,
        writer: &Writer<'_>,
    ) -> Result<(), DmuError> {
        let old = self.base.dnode();
        let beyond = old.block_id_max.0.saturating_add(1);
        // What the object never had need not be in the range for a subtree to be free as a whole.
        let end = if end >= beyond { u64::MAX } else { end };
        let top = old.levels - 1;
        let pointers = old.block_pointers.clone();
        let mut stack = Vec::new();
        for (block, pointer) in (0..).zip(&pointers) {
            stack.extend(self.free_one(pointer, top, block, (start, end), writer)?);
            while let Some(place) = stack.last_mut() {
                let index = place.next;
                if (index + 1) * BLOCK_POINTER_SIZE > place.contents.len() {
                    stack.pop();
                    continue;
                }
                place.next += 1;
                let pointer = entry(&place.contents, index);
                let (level, block) = (place.level, place.first + index as u64);
                stack.extend(self.free_one(&pointer, level, block, (start, end), writer)?);
            }
        }
        Ok(())
    }

    /// Frees what `pointer` leads to if the range covers it; else says where to look into it.
    fn free_one(
        &mut self,
        pointer: &BlockPointer,
        level: u8,
        block: u64,
        (start, end): (u64, u64),
        writer: &Writer<'_>,
    ) -> Result<Option<Place>, DmuError> {
        let fanout = self.new.indirect_fanout_shift();
        let span = fanout * u32::from(level);
        let scaled = |block: u64| match block {
            0 => 0,
            block if block.leading_zeros() >= span => block << span,
            _ => u64::MAX,
        };
        let (first, behind) = (scaled(block), scaled(block.saturating_add(1)));
        if pointer.is_hole() || behind <= start || first >= end {
            return Ok(None);
        }
        if start <= first && behind <= end {
            self.free_subtree(pointer, level, block, writer)?;
            let size = pointer.logical_size();
            let hole = self.hole_in_place_of(pointer, level, size, writer);
            self.freed[usize::from(level)].insert(block);
            self.updates[usize::from(level)].insert(block, hole);
            return Ok(None);
        }
        assert!(level > 0, "a single block is covered or not");
        let contents = self.base.read_pointer(pointer, level, BlockId(block))?;
        Ok(Some(Place {
            contents,
            level: level - 1,
            first: block << fanout,
            next: 0,
        }))
    }

    /// Frees a block and all below it.
    fn free_subtree(
        &mut self,
        pointer: &BlockPointer,
        level: u8,
        block: u64,
        writer: &Writer<'_>,
    ) -> Result<(), DmuError> {
        let fanout = self.new.indirect_fanout_shift();
        let mut stack = vec![];
        let mut next = Some((*pointer, level, block));
        loop {
            if let Some((pointer, level, block)) = next.take() {
                if level > 0 {
                    let contents = self.base.read_pointer(&pointer, level, BlockId(block))?;
                    stack.push(Place {
                        contents,
                        level: level - 1,
                        first: block << fanout,
                        next: 0,
                    });
                }
                self.free_block(&pointer, writer);
            }
            let Some(place) = stack.last_mut() else {
                return Ok(());
            };
            let index = place.next;
            if (index + 1) * BLOCK_POINTER_SIZE > place.contents.len() {
                stack.pop();
                continue;
            }
            place.next += 1;
            if place.level > 0 && index.is_multiple_of(FETCH_COUNT) {
                self.read_ahead(place);
            }
            let pointer = entry(&place.contents, index);
            if !pointer.is_hole() {
                next = Some((pointer, place.level, place.first + index as u64));
            }
        }
    }

    /// Has the next indirect blocks below `place` read in one go.
    fn read_ahead(&self, place: &Place) {
        let from = place.next - 1;
        let count = place.contents.len() / BLOCK_POINTER_SIZE;
        let set = self.base.set();
        let wanted = (from..count.min(from + FETCH_COUNT)).filter_map(|index| {
            let pointer = entry(&place.contents, index);
            let bookmark = Bookmark {
                objset: set.id(),
                object: self.base.id(),
                level: cenote_base::Level(place.level),
                block: BlockId(place.first + index as u64),
            };
            (!pointer.is_hole()).then_some((pointer, bookmark))
        });
        let wanted: Vec<_> = wanted.collect();
        let keys = set.keys().map(AsRef::as_ref);
        set.cache().fetch(&wanted, keys, set.retention(true));
    }

    /// Gives up one block.
    pub(super) fn free_block(&mut self, pointer: &BlockPointer, writer: &Writer<'_>) {
        if pointer.is_hole() {
            return;
        }
        self.used = self.used.saturating_sub(writer.space_of(pointer));
        writer.sink.free(writer.txg, pointer);
    }

    /// Frees the whole object as it is on disk, its spill block included.
    pub(super) fn free_all(&mut self, writer: &Writer<'_>) -> Result<(), DmuError> {
        let pointers = self.base.dnode().block_pointers.clone();
        let top = self.base.dnode().levels - 1;
        for (block, pointer) in (0..).zip(&pointers) {
            if !pointer.is_hole() {
                self.free_subtree(pointer, top, block, writer)?;
            }
        }
        if let Some(spill) = self.base.dnode().spill {
            self.free_block(&spill, writer);
        }
        Ok(())
    }
}
