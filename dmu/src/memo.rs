//! The indirect blocks that were wanted last, found without walking down to them.
//!
//! A read at a random place walks from the dnode to the lowest indirect block, and asks the cache
//! at each level. Most of these questions have been asked a moment ago. A *memo* answers the last
//! one at once: the indirect block of level 1 above a data block.
//!
//! Nothing here is ever invalidated. An entry holds the pointer at which its walk began, and is
//! good for a walk that begins at the same one: a pointer has the address, the birth and the
//! checksum of the block that it leads to, which has those of the blocks below. A change of the
//! tree changes its pointers up to the dnode.
//!
//! The memo holds no memory: what the cache drops is gone here too. And so that the cache learns
//! what is in use, every so often the walk is done all the same.

use cenote_base::ObjectId;
use cenote_cache::{Block, BlockBuffer};
use cenote_ondisk::BlockPointer;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Entries of one object set: some 6 KiB.
const SLOTS: usize = 32;
/// A walk is done once in so many questions.
const ANSWERS_MAX: u32 = 256;

#[derive(Debug)]
struct Entry {
    object: ObjectId,
    /// The number of the indirect block among those of level 1.
    block: u64,
    /// The dnode's pointer above it.
    top: BlockPointer,
    contents: Weak<BlockBuffer>,
    answers: u32,
}

/// Lately used indirect blocks of level 1 of one object set.
#[derive(Debug, Default)]
pub(crate) struct IndirectMemo {
    slots: [Mutex<Option<Entry>>; SLOTS],
}

impl IndirectMemo {
    fn slot(&self, object: ObjectId, block: u64) -> std::sync::MutexGuard<'_, Option<Entry>> {
        // Neighbouring blocks of one object, and neighbouring objects, do not meet.
        let index = object.0.wrapping_mul(7).wrapping_add(block) % SLOTS as u64;
        let slot = &self.slots[usize::try_from(index).expect("below 32")];
        // An entry is replaced as a whole.
        slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The contents of indirect block `block` of level 1, if it was noted below the same pointer
    /// of the dnode and is still cached.
    pub(crate) fn get(&self, object: ObjectId, block: u64, top: &BlockPointer) -> Option<Block> {
        let mut slot = self.slot(object, block);
        let entry = slot.as_mut()?;
        if entry.object != object || entry.block != block || entry.top != *top {
            return None;
        }
        entry.answers += 1;
        if entry.answers > ANSWERS_MAX {
            *slot = None;
            return None;
        }
        entry.contents.upgrade()
    }

    /// Notes what a walk from `top` led to.
    pub(crate) fn note(&self, object: ObjectId, block: u64, top: &BlockPointer, found: &Block) {
        *self.slot(object, block) = Some(Entry {
            object,
            block,
            top: *top,
            contents: Arc::downgrade(found),
            answers: 0,
        });
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

    #[test]
    fn only_the_same_walk_is_answered() {
        let memo = IndirectMemo::default();
        let block: Block = Arc::new(vec![1; 512].into());
        memo.note(ObjectId(5), 3, &pointer(8), &block);
        assert_eq!(memo.get(ObjectId(5), 3, &pointer(8)).as_ref(), Some(&block));
        assert!(memo.get(ObjectId(5), 3, &pointer(9)).is_none(), "changed");
        assert!(memo.get(ObjectId(5), 4, &pointer(8)).is_none());
        assert!(
            memo.get(ObjectId(5), 3 + SLOTS as u64, &pointer(8))
                .is_none()
        );
        let same_slot = ObjectId(5 + SLOTS as u64);
        assert!(memo.get(same_slot, 3, &pointer(8)).is_none());
    }

    #[test]
    fn what_the_cache_dropped_is_not_kept() {
        let memo = IndirectMemo::default();
        let block: Block = Arc::new(vec![1; 512].into());
        memo.note(ObjectId(5), 3, &pointer(8), &block);
        drop(block);
        assert!(memo.get(ObjectId(5), 3, &pointer(8)).is_none());
    }

    #[test]
    fn the_cache_is_asked_now_and_then() {
        let memo = IndirectMemo::default();
        let block: Block = Arc::new(vec![1; 512].into());
        memo.note(ObjectId(5), 3, &pointer(8), &block);
        let answers = (0..2 * ANSWERS_MAX).map_while(|_| memo.get(ObjectId(5), 3, &pointer(8)));
        assert_eq!(answers.count(), ANSWERS_MAX as usize);
    }
}
