//! What a new object is to be: its types, the sizes of its blocks, its bonus buffer.

use cenote_base::{BLOCK_SIZE_MAX, BlockId, SECTOR_SIZE};
use cenote_ondisk::block_pointer::BLOCK_POINTER_SIZE;
use cenote_ondisk::dnode::{DNODE_CORE_SIZE, DNODE_SIZE, DNODE_SLOTS_MAX, LEVELS_MAX};
use cenote_ondisk::{BlockPointer, Dnode, ObjectType};

/// log2 of the default size of indirect blocks.
pub const INDIRECT_SHIFT: u8 = 17;

/// What a new object is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewObject {
    /// What its contents are.
    pub object_type: ObjectType,
    /// What its bonus buffer holds.
    pub bonus_type: ObjectType,
    /// The bonus buffer.
    pub bonus: Vec<u8>,
    /// Bytes of a data block.
    pub data_block_size: u64,
    /// log2 of the size of an indirect block.
    pub indirect_shift: u8,
    /// Slots of 512 bytes of the dnode.
    pub slots: usize,
    /// Checksum function number, 0 to inherit.
    pub checksum: u8,
    /// Compression function number, 0 to inherit.
    pub compression: u8,
    /// The shape of the tree, where that is given.
    pub shape: Option<TreeShape>,
}

/// The shape of a tree that is received as it is stored elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeShape {
    /// Pointers in the dnode, 1 to 3.
    pub pointers: u8,
    /// Levels.
    pub levels: u8,
    /// The highest block.
    pub block_id_max: BlockId,
}

impl NewObject {
    /// An object without bonus buffer in one slot, with blocks of `data_block_size` bytes.
    pub fn new(object_type: ObjectType, data_block_size: u64) -> Self {
        Self {
            object_type,
            bonus_type: ObjectType::NONE,
            bonus: Vec::new(),
            data_block_size,
            indirect_shift: INDIRECT_SHIFT,
            slots: 1,
            checksum: 0,
            compression: 0,
            shape: None,
        }
    }

    /// The same with a bonus buffer.
    pub fn with_bonus(self, bonus_type: ObjectType, bonus: Vec<u8>) -> Self {
        Self {
            bonus_type,
            bonus,
            ..self
        }
    }

    /// As many pointers as OpenZFS takes (format/2b 2).
    pub fn pointers(&self) -> usize {
        if let Some(shape) = &self.shape {
            return usize::from(shape.pointers);
        }
        if self.bonus_type == ObjectType::NONE {
            return 3;
        }
        if self.bonus_type == ObjectType::SYSTEM_ATTRIBUTES {
            return 1;
        }
        let taken = DNODE_CORE_SIZE + BLOCK_POINTER_SIZE + self.bonus.len();
        let room = (self.slots * DNODE_SIZE).saturating_sub(taken);
        (1 + room / BLOCK_POINTER_SIZE).min(3)
    }

    /// Why there can be no such object.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        let size = self.data_block_size;
        match () {
            () if self.slots == 0 || self.slots > DNODE_SLOTS_MAX => {
                Some("a dnode has 1 to 32 slots")
            }
            () if self.shape.is_some_and(|shape| !shape.is_possible()) => {
                Some("a tree has 1 to 3 pointers and up to 12 levels")
            }
            () if !bonus_fits(self.bonus.len(), self.slots, self.pointers().min(3), false) => {
                Some("the bonus buffer has no room for that much")
            }
            () if size == 0 || size > BLOCK_SIZE_MAX || !size.is_multiple_of(SECTOR_SIZE) => {
                Some("a block has 512 bytes to 16 MiB in whole sectors")
            }
            () if !(12..=17).contains(&self.indirect_shift) => {
                Some("an indirect block has 4 to 128 KiB")
            }
            () => None,
        }
    }

    /// The dnode, with a tree of holes.
    pub(crate) fn dnode(&self) -> Dnode {
        Dnode {
            object_type: self.object_type,
            indirect_shift: self.indirect_shift,
            levels: self.shape.map_or(1, |shape| shape.levels),
            bonus_type: self.bonus_type,
            checksum: self.checksum,
            compression: self.compression,
            flags: 0,
            data_block_size: self.data_block_size,
            extra_slots: u8::try_from(self.slots - 1).expect("at most 31"),
            block_id_max: self.shape.map_or(BlockId(0), |shape| shape.block_id_max),
            used: 0,
            block_pointers: vec![BlockPointer::HOLE; self.pointers()],
            bonus: self.bonus.clone(),
            spill: None,
        }
    }
}

impl TreeShape {
    fn is_possible(&self) -> bool {
        (1..=3).contains(&self.pointers) && (1..LEVELS_MAX).contains(&self.levels)
    }
}

/// Whether a dnode of `slots` slots has room for a bonus buffer of `length` bytes.
///
/// One slot has no room for the pointer of a spill block beside three pointers.
pub(crate) fn bonus_fits(length: usize, slots: usize, pointers: usize, has_spill: bool) -> bool {
    let spill = if has_spill { BLOCK_POINTER_SIZE } else { 0 };
    DNODE_CORE_SIZE + pointers * BLOCK_POINTER_SIZE + spill + length <= slots * DNODE_SIZE
}
