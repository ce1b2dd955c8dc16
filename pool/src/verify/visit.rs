//! A block that verification still has to look at.

use cenote_base::{BlockId, Bookmark, Level, ObjectId, ObjsetId};
use cenote_ondisk::block_pointer::{BLOCK_POINTER_SIZE, BlockPointer};
use cenote_ondisk::{DecodeError, Dnode, wire};

/// Bytes of a visit in a saved state: pointer, bookmark (4 words), root, size.
pub(crate) const VISIT_SIZE: usize = BLOCK_POINTER_SIZE + 6 * 8;

/// A block to read, and what it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Visit {
    pub(crate) pointer: BlockPointer,
    pub(crate) bookmark: Bookmark,
    /// Index of the object set among the roots.
    pub(crate) root: usize,
    /// log2 of the block pointers in an indirect block of this object.
    pub(crate) fanout_shift: u32,
    /// Bytes that a data block of this object has; 0 for blocks without a fixed size.
    pub(crate) data_size: u64,
}

/// The number that a spill block has in a bookmark, as OpenZFS gives it.
pub(crate) const SPILL_BLOCK: BlockId = BlockId(u64::MAX);

impl Visit {
    /// The block pointers in a dnode: the tops of its tree, and the spill block.
    pub(crate) fn of_dnode(
        objset: ObjsetId,
        object: ObjectId,
        root: usize,
        dnode: &Dnode,
    ) -> Vec<Self> {
        let level = Level(dnode.levels - 1);
        let tops = dnode
            .block_pointers
            .iter()
            .zip(0..)
            .map(|(pointer, block)| Self {
                pointer: *pointer,
                bookmark: Bookmark {
                    objset,
                    object,
                    level,
                    block: BlockId(block),
                },
                root,
                fanout_shift: dnode.indirect_fanout_shift(),
                data_size: dnode.data_block_size,
            });
        let spill = dnode.spill.iter().map(|pointer| Self {
            pointer: *pointer,
            bookmark: Bookmark::data(objset, object, SPILL_BLOCK),
            root,
            fanout_shift: 0,
            data_size: 0,
        });
        tops.chain(spill).collect()
    }

    /// The children of an indirect block.
    pub(crate) fn children(&self, block: &[u8]) -> Vec<Self> {
        assert!(self.bookmark.level.0 > 0);
        let base = self
            .bookmark
            .block
            .0
            .checked_shl(self.fanout_shift)
            .unwrap_or(u64::MAX);
        let pointers = block.chunks_exact(BLOCK_POINTER_SIZE).zip(0_u64..);
        let child = |(bytes, index): (&[u8], u64)| Self {
            pointer: BlockPointer::decode(bytes).expect("chunks of a pointer's size"),
            bookmark: Bookmark {
                level: Level(self.bookmark.level.0 - 1),
                block: BlockId(base.saturating_add(index)),
                ..self.bookmark
            },
            ..self.clone()
        };
        pointers
            .map(child)
            .filter(|visit| !visit.pointer.is_hole())
            .collect()
    }

    /// What is wrong with the pointer for its place, if anything.
    pub(crate) fn misplaced(&self) -> Option<&'static str> {
        let pointer = &self.pointer;
        if pointer.is_redacted() {
            return None;
        }
        if pointer.level() != self.bookmark.level {
            return Some("its pointer is of another level");
        }
        let expected = match self.bookmark.level.0 {
            0 => self.data_size,
            _ => (BLOCK_POINTER_SIZE as u64) << self.fanout_shift,
        };
        let differs = expected != 0 && pointer.logical_size() != expected;
        differs.then_some("its size is not that of the object's blocks")
    }

    /// The order of blocks on disk.
    pub(crate) fn disk_order(&self) -> (u64, u64) {
        let first = self.pointer.dva(0);
        (first.vdev().0, first.offset())
    }

    /// The bytes of a saved state.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let Bookmark {
            objset,
            object,
            level,
            block,
        } = self.bookmark;
        out.extend_from_slice(&self.pointer.encode());
        let packed = u64::from(level.0) << 32 | u64::from(self.fanout_shift);
        for word in [
            objset.0,
            object.0,
            packed,
            block.0,
            self.root as u64,
            self.data_size,
        ] {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Reads a visit from a saved state.
    pub(crate) fn decode(bytes: &[u8], roots: usize) -> Result<Self, DecodeError> {
        let structure = "saved verification";
        let pointer = BlockPointer::decode(bytes)?;
        let word = |index: usize| wire::u64_le(bytes, BLOCK_POINTER_SIZE + 8 * index, structure);
        let packed = word(2)?;
        let root = usize::try_from(word(4)?).ok().filter(|root| *root < roots);
        let bad = |field, value| DecodeError::BadValue {
            structure,
            field,
            value,
        };
        let root = root.ok_or(bad("root", word(4)?))?;
        let fanout_shift = wire::bits(packed, 0, 32);
        if fanout_shift > 10 {
            return Err(bad("fanout", fanout_shift));
        }
        Ok(Self {
            pointer,
            bookmark: Bookmark {
                objset: ObjsetId(word(0)?),
                object: ObjectId(word(1)?),
                level: Level(u8::try_from(packed >> 32).map_err(|_| bad("level", packed))?),
                block: BlockId(word(3)?),
            },
            root,
            fanout_shift: fanout_shift as u32,
            data_size: word(5)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saving_is_inverse() {
        let mut pointer = BlockPointer::HOLE;
        pointer.words[3] = 77;
        let visit = Visit {
            pointer,
            bookmark: Bookmark {
                objset: ObjsetId(54),
                object: ObjectId(7),
                level: Level(2),
                block: BlockId(9),
            },
            root: 3,
            fanout_shift: 10,
            data_size: 131_072,
        };
        let mut bytes = Vec::new();
        visit.encode(&mut bytes);
        assert_eq!(bytes.len(), VISIT_SIZE);
        assert_eq!(Visit::decode(&bytes, 4), Ok(visit));
        assert!(Visit::decode(&bytes, 3).is_err(), "there is no root 3");
    }
}
