//! The blocks that were wanted last, found without walking down to them.
//!
//! A read at a random place walks from the dnode to the lowest indirect block, asks the cache at
//! each level, and then asks it for the data block. Most of these questions have been asked a
//! moment ago, and each answer lies in memory that no processor's cache holds. A *memo* answers
//! at once: with the indirect block of level 1, or with the data block below it.
//!
//! Nothing here is ever invalidated. An entry holds the pointer at which its walk began, and is
//! good for a walk that begins at the same one: a pointer has the address, the birth and the
//! checksum of the block that it leads to, which has those of the blocks below. A change of the
//! tree changes its pointers up to the dnode.
//!
//! The memo holds no block: what the cache drops is gone here too. And so that the cache learns
//! what is in use, every so often it is asked all the same.

use cenote_base::ObjectId;
use cenote_base::rt::{Mutex, MutexGuard, ranks};
use cenote_cache::{Block, BlockBuffer};
use cenote_ondisk::BlockPointer;
use std::sync::{Arc, Weak};

/// Entries of one object set. Each has 8 bytes for every pointer of its indirect block once data
/// blocks are noted: 8 KiB for the usual 1024, 256 KiB for all.
const SLOTS: usize = 32;
/// A walk is done once in so many questions.
const ANSWERS_MAX: u32 = 256;
/// The cache is asked for a data block once in so many questions.
const DATA_ANSWERS_MAX: u32 = 64;

#[derive(Debug)]
struct Entry {
    object: ObjectId,
    /// The number of the indirect block among those of level 1.
    block: u64,
    /// The dnode's pointer above it.
    top: BlockPointer,
    contents: Weak<BlockBuffer>,
    answers: u32,
    /// The data blocks below it, as far as they are known; empty if none is.
    data: Vec<Weak<BlockBuffer>>,
    data_answers: u32,
}

/// A place in an object's tree: an indirect block of level 1, as the walk from the dnode's
/// pointer `top` leads to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub object: ObjectId,
    /// The number of the indirect block among those of level 1.
    pub block: u64,
    pub top: &'a BlockPointer,
}

impl Entry {
    fn is_of(&self, place: Place<'_>) -> bool {
        self.object == place.object && self.block == place.block && self.top == *place.top
    }
}

/// Lately used blocks of one object set.
#[derive(Debug, Default)]
pub(crate) struct BlockMemo {
    slots: [Mutex<Option<Entry>, ranks::BlockMemo>; SLOTS],
}

impl BlockMemo {
    fn slot(&self, place: Place<'_>) -> MutexGuard<'_, Option<Entry>> {
        // Neighbouring blocks of one object, and neighbouring objects, do not meet.
        let index = place.object.0.wrapping_mul(7).wrapping_add(place.block) % SLOTS as u64;
        let slot = &self.slots[usize::try_from(index).expect("below 32")];
        // An entry is replaced as a whole, and one data block of it makes no other wrong.
        slot.lock()
    }

    /// The contents of the indirect block at `place`, if it was noted below the same pointer of
    /// the dnode and is still cached.
    pub(crate) fn indirect(&self, place: Place<'_>) -> Option<Block> {
        let mut slot = self.slot(place);
        let entry = slot.as_mut().filter(|entry| entry.is_of(place))?;
        entry.answers += 1;
        if entry.answers > ANSWERS_MAX {
            // What is known of the blocks below it stays.
            entry.answers = 0;
            return None;
        }
        entry.contents.upgrade()
    }

    /// Notes what a walk to `place` led to.
    pub(crate) fn note_indirect(&self, place: Place<'_>, found: &Block) {
        let mut slot = self.slot(place);
        // What is known of the blocks below stays true while the walk begins at one pointer.
        let before = slot.take().filter(|entry| entry.is_of(place));
        *slot = Some(Entry {
            object: place.object,
            block: place.block,
            top: *place.top,
            contents: Arc::downgrade(found),
            answers: 0,
            data: before.map_or_else(Vec::new, |entry| entry.data),
            data_answers: 0,
        });
    }

    /// The contents of data block `index` below the indirect block at `place`, if they were noted
    /// and are still cached.
    pub(crate) fn data(&self, place: Place<'_>, index: usize) -> Option<Block> {
        let mut slot = self.slot(place);
        let entry = slot.as_mut().filter(|entry| entry.is_of(place))?;
        let found = entry.data.get(index)?.upgrade()?;
        entry.data_answers += 1;
        if entry.data_answers == DATA_ANSWERS_MAX {
            entry.data_answers = 0;
            return None;
        }
        Some(found)
    }

    /// Notes the contents of data block `index` of the `count` below an indirect block that is
    /// noted itself.
    pub(crate) fn note_data(&self, place: Place<'_>, index: usize, count: usize, found: &Block) {
        let mut slot = self.slot(place);
        let Some(entry) = slot.as_mut().filter(|entry| entry.is_of(place)) else {
            return;
        };
        if entry.data.is_empty() {
            entry.data.resize_with(count, Weak::new);
        }
        if let Some(known) = entry.data.get_mut(index) {
            *known = Arc::downgrade(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointer(address: u64) -> BlockPointer {
        let mut pointer = BlockPointer::HOLE;
        pointer.words[1] = address;
        pointer
    }

    fn contents(byte: u8) -> Block {
        Arc::new(vec![byte; 512].into())
    }

    fn place(object: u64, block: u64, top: &BlockPointer) -> Place<'_> {
        let object = ObjectId(object);
        Place { object, block, top }
    }

    #[test]
    fn only_the_same_walk_is_answered() {
        let memo = BlockMemo::default();
        let (top, other) = (pointer(8), pointer(9));
        let (block, below) = (contents(1), contents(2));
        memo.note_indirect(place(5, 3, &top), &block);
        memo.note_data(place(5, 3, &top), 7, 8, &below);
        assert_eq!(memo.indirect(place(5, 3, &top)), Some(block));
        assert_eq!(memo.data(place(5, 3, &top), 7), Some(below));
        let slots = SLOTS as u64;
        for wrong in [
            place(5, 3, &other),
            place(5, 4, &top),
            place(5, 3 + slots, &top),
            place(5 + slots, 3, &top),
        ] {
            assert!(memo.indirect(wrong).is_none());
            assert!(memo.data(wrong, 7).is_none());
        }
        assert!(memo.data(place(5, 3, &top), 6).is_none(), "not noted");
        assert!(memo.data(place(5, 3, &top), 8).is_none(), "there are 8");
    }

    /// A block written over an old one is another one, though in the same place of the tree.
    #[test]
    fn a_changed_tree_has_no_data_of_the_old_one() {
        let memo = BlockMemo::default();
        let (before, after) = (pointer(8), pointer(9));
        let (block, below) = (contents(1), contents(2));
        memo.note_indirect(place(5, 3, &before), &block);
        memo.note_data(place(5, 3, &before), 7, 8, &below);
        memo.note_data(place(5, 3, &after), 7, 8, &below);
        memo.note_indirect(place(5, 3, &after), &block);
        assert!(memo.data(place(5, 3, &after), 7).is_none());
    }

    #[test]
    fn what_the_cache_dropped_is_not_kept() {
        let memo = BlockMemo::default();
        let top = pointer(8);
        let (block, below) = (contents(1), contents(2));
        memo.note_indirect(place(5, 3, &top), &block);
        memo.note_data(place(5, 3, &top), 7, 8, &below);
        drop((block, below));
        assert!(memo.indirect(place(5, 3, &top)).is_none());
        assert!(memo.data(place(5, 3, &top), 7).is_none());
    }

    #[test]
    fn the_cache_is_asked_now_and_then() {
        let memo = BlockMemo::default();
        let top = pointer(8);
        let (block, below) = (contents(1), contents(2));
        let at = place(5, 3, &top);
        memo.note_indirect(at, &block);
        memo.note_data(at, 7, 8, &below);
        let asked = (0..8 * DATA_ANSWERS_MAX).filter(|_| memo.data(at, 7).is_none());
        assert_eq!(asked.count(), 8);
        let answers = (0..2 * ANSWERS_MAX).map_while(|_| memo.indirect(at));
        assert_eq!(answers.count(), ANSWERS_MAX as usize);
        // Forgetting the blocks below with it cost a third of all reads a walk.
        memo.note_indirect(at, &block);
        assert!(memo.data(at, 7).is_some());
    }
}
