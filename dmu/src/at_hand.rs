//! What the cache has of an object, for readers that must not wait, and the root of its contents.
//!
//! A thread that serves many readers asks here first. It gets the blocks that the cache has, and
//! leaves the rest to another thread: nothing here reads a device, or waits for another reader.
//!
//! The *content root* names the bytes of an object that is on disk: the pointers in its dnode. A
//! pointer has the address, the birth and the checksum of the block that it leads to, or the block
//! itself, and that block has the pointers to those below. An address is not written twice in one
//! transaction group. So two states of objects in one pool with equal roots have equal bytes.

use crate::live::Place;
use crate::object::{Object, Segment};
use crate::tree::entry_of;
use cenote_base::BlockId;
use cenote_cache::Block;
use cenote_io::ReadContext;
use cenote_ondisk::BlockPointer;
use std::sync::Arc;

/// Names the bytes of an object up to its size, which is not the object's to know.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContentRoot(Vec<u64>);

impl ContentRoot {
    /// The words that it is made of.
    pub fn words(&self) -> &[u64] {
        &self.0
    }
}

/// What is known of a block without waiting.
type AtHand = Option<Option<Block>>;

impl Object {
    /// The contents of `[offset, offset + length)` from the start as far as memory has them
    /// without a gap.
    pub fn segments_at_hand(&self, offset: u64, length: usize) -> Vec<Segment> {
        let mut segments = Vec::new();
        let size = self.newest_dnode().data_block_size;
        let Some(end) = offset.checked_add(length as u64) else {
            return segments;
        };
        let mut at = offset;
        while at < end {
            let Some(block) = self.block_at_hand(BlockId(at / size)) else {
                break;
            };
            let start = at % size;
            let piece = (size - start).min(end - at);
            segments.push(Segment {
                block,
                start: usize::try_from(start).expect("at most 16 MiB"),
                length: usize::try_from(piece).expect("at most 16 MiB"),
            });
            at += piece;
        }
        segments
    }

    /// The newest contents of a block; `None` inside for a hole.
    fn block_at_hand(&self, block: BlockId) -> AtHand {
        let Some(live) = &self.live else {
            return self.committed_at_hand(block);
        };
        let place = live.read().find(block.0);
        match place {
            Place::Contents(contents) => Some(Some(contents)),
            Place::Hole => Some(None),
            Place::Pointer(pointer) => {
                let newest = self.committed(self.newest_dnode());
                newest.peek(&pointer, 0, block).map(Some)
            }
            Place::Committed(dnode) => self.committed(dnode).committed_at_hand(block),
        }
    }

    fn committed_at_hand(&self, block: BlockId) -> AtHand {
        let dnode = self.dnode();
        if block > dnode.block_id_max {
            return Some(None);
        }
        let Some(index) = dnode.top_index(0, block) else {
            return Some(None);
        };
        let fanout = dnode.indirect_fanout_shift();
        let mut pointer = dnode.block_pointers[index];
        for level in (1..dnode.levels).rev() {
            if pointer.is_hole() {
                return Some(None);
            }
            let above = |levels: u8| block.0.checked_shr(fanout * u32::from(levels)).unwrap_or(0);
            let indirect = self.peek(&pointer, level, BlockId(above(level)))?;
            pointer = entry_of(&indirect, above(level - 1) & ((1 << fanout) - 1));
        }
        match pointer.is_hole() {
            true => Some(None),
            false => self.peek(&pointer, 0, block).map(Some),
        }
    }

    /// The block behind a pointer that is no hole, if memory has it. A pointer that contradicts its
    /// place is left to a normal read, which reports the error.
    fn peek(&self, pointer: &BlockPointer, level: u8, block: BlockId) -> Option<Block> {
        if pointer.is_redacted() || self.check_place(pointer, level, block).is_err() {
            return None;
        }
        let bookmark = self.bookmark(level, block);
        let keys = self.set().keys().map(AsRef::as_ref);
        let context = ReadContext { bookmark, keys };
        let cache = self.set().cache();
        let found = cache.peek(pointer, context, self.retention(level))?;
        (found.len() as u64 == pointer.logical_size()).then_some(found)
    }

    /// How often its contents changed, for [`Self::is_unchanged_since`]. The number means nothing
    /// without this handle, or one made of it.
    pub fn changes(&self) -> u64 {
        let live = self.live.as_ref();
        live.map_or(0, |live| live.read().changes.count())
    }

    /// Whether no byte before `end` changed after there were so many changes. What was read before
    /// this is asked is then of the state in which they were counted.
    pub fn is_unchanged_since(&self, changes: u64, end: u64) -> bool {
        let live = self.live.as_ref();
        live.is_none_or(|live| live.read().changes.lowest_since(changes) >= end)
    }

    /// What names the object's contents; `None` while they are not on disk.
    pub fn content_root(&self) -> Option<ContentRoot> {
        let dnode = match &self.live {
            None => self.shared_dnode(),
            Some(live) => {
                let state = live.read();
                match state.is_committed(0, u64::MAX) {
                    true => Arc::clone(state.committed.as_ref()?),
                    false => return None,
                }
            }
        };
        let shape = [dnode.data_block_size, u64::from(dnode.levels)];
        let pointers = dnode.block_pointers.iter().flat_map(|one| one.words);
        Some(ContentRoot(shape.into_iter().chain(pointers).collect()))
    }
}
