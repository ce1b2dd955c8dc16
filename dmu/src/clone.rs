//! Sharing blocks: what a block is on disk, for another object to refer to it too.
//!
//! A clone of a block is a copy of its pointer that is born in the group of the cloning and keeps
//! the birth of its contents (format/2c 6.2). It goes into the other object by
//! [`Object::set_block_pointer`]; the sink learns of it when the group is written.
//!
//! The caller holds a transaction already when it examines a block. So it sees frees of the group
//! before, and what this group frees is given up only after its clones were counted.

use crate::error::DmuError;
use crate::live::Place;
use crate::object::Object;
use cenote_base::{BlockId, Txg};
use cenote_ondisk::BlockPointer;
use std::sync::Arc;

/// Where the contents of a block are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredBlock {
    /// It has none.
    Hole,
    /// Behind this pointer.
    Pointer(Box<BlockPointer>),
    /// In memory only: they were changed and are not on disk yet.
    Dirty,
}

impl Object {
    /// Where the newest contents of a data block are.
    pub fn stored_block(&self, block: BlockId) -> Result<StoredBlock, DmuError> {
        let stored = |pointer: BlockPointer| match pointer.is_hole() {
            true => StoredBlock::Hole,
            false => StoredBlock::Pointer(Box::new(pointer)),
        };
        let Some(live) = &self.live else {
            return self.pointer_within(block).map(stored);
        };
        live.look(block.0, |place| match place {
            Place::Contents(_) => Ok(StoredBlock::Dirty),
            Place::Pointer(pointer) => Ok(stored(**pointer)),
            Place::Hole => Ok(StoredBlock::Hole),
            Place::Committed(dnode) => {
                let on_disk = self.committed(Arc::clone(dnode));
                on_disk.pointer_within(block).map(stored)
            }
        })
    }

    fn pointer_within(&self, block: BlockId) -> Result<BlockPointer, DmuError> {
        match block > self.dnode().block_id_max {
            true => Ok(BlockPointer::HOLE),
            false => self.block_pointer(0, block),
        }
    }
}

/// The pointer by which another object refers to the block of `source` from `txg` on.
pub fn clone_of(source: &BlockPointer, txg: Txg) -> BlockPointer {
    const LOGICAL_BIRTH: usize = 10;
    const PHYSICAL_BIRTH: usize = 9;
    /// Its highest bit says that only the address is new; the rest is not used.
    const FLAGS: usize = 7;
    let mut clone = *source;
    if source.is_embedded() {
        // The other words are contents.
        clone.words[LOGICAL_BIRTH] = txg.0;
        return clone;
    }
    clone.words[PHYSICAL_BIRTH] = match source.physical_birth() {
        birth if birth == txg => 0,
        birth => birth.0,
    };
    clone.words[LOGICAL_BIRTH] = txg.0;
    clone.words[FLAGS] &= !(1 << 63);
    clone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_keeps_the_birth_of_its_contents() {
        let mut source = BlockPointer::HOLE;
        source.words[0] = 8;
        source.words[1] = 0x1000;
        source.words[6] = 1 << 63 | 2 << 40;
        source.words[7] = 1 << 63;
        source.words[10] = 17;
        let clone = clone_of(&source, Txg(40));
        assert_eq!(
            (clone.logical_birth(), clone.physical_birth()),
            (Txg(40), Txg(17))
        );
        assert!(!clone.is_rewritten());
        assert_eq!(clone.words[..7], source.words[..7]);
        let again = clone_of(&clone, Txg(50));
        assert_eq!(
            (again.logical_birth(), again.physical_birth()),
            (Txg(50), Txg(17))
        );
    }

    #[test]
    fn embedded_contents_are_left_alone() {
        let mut source = BlockPointer::HOLE;
        source.words[6] = 1 << 39;
        source.words[9] = 0x1234_5678;
        source.words[10] = 17;
        assert!(source.is_embedded());
        let clone = clone_of(&source, Txg(40));
        assert_eq!((clone.words[9], clone.words[10]), (0x1234_5678, 40));
    }
}
