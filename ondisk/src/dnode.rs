//! The dnode: an object's type, geometry and first block pointers.
//!
//! Source: format/2b 2. 512 bytes, or up to 32 such slots with the feature `large_dnode`:
//!
//! ```text
//!   0 type      1 indirect shift  2 levels     3 block pointers (1-3)
//!   4 bonus type 5 checksum       6 compression 7 flags
//!   8 data block size / 512 (u16)  10 bonus length (u16)  12 extra slots  13 pad
//!  16 highest block id            24 space used           32 pad (32 bytes)
//!  64 block pointers, then the bonus buffer; with SPILL_BLKPTR the last 128 bytes are the
//!     spill block's pointer
//! ```

use crate::block_pointer::{BLOCK_POINTER_SIZE, BlockPointer};
use crate::wire;
use crate::{DecodeError, ObjectType};
use cenote_base::{BlockId, SECTOR_SIZE};

/// Bytes of a dnode slot.
pub const DNODE_SIZE: usize = 512;

/// The most slots that one dnode can take.
pub const DNODE_SLOTS_MAX: usize = 32;

/// Bytes before the first block pointer.
pub const DNODE_CORE_SIZE: usize = 64;

/// Levels of indirection that the format allows.
pub const LEVELS_MAX: u8 = 12;

const STRUCTURE: &str = "dnode";
const INDIRECT_SHIFT_MIN: u8 = 12;
const INDIRECT_SHIFT_MAX: u8 = 17;
const BLOCK_POINTER_SHIFT: u32 = 7;

/// `used` counts bytes, not sectors.
pub const FLAG_USED_BYTES: u8 = 1;
/// The object counts in the user and group accounting.
pub const FLAG_USERUSED_ACCOUNTED: u8 = 2;
/// The last 128 bytes are the spill block's pointer.
pub const FLAG_SPILL_BLKPTR: u8 = 4;
/// The object counts in the accounting of object numbers.
pub const FLAG_USEROBJUSED_ACCOUNTED: u8 = 8;

/// An allocated dnode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dnode {
    /// What the object's contents are.
    pub object_type: ObjectType,
    /// log2 of the size of an indirect block in bytes.
    pub indirect_shift: u8,
    /// Levels of the block tree; 1 when the dnode's pointers point to data.
    pub levels: u8,
    /// What the bonus buffer holds.
    pub bonus_type: ObjectType,
    /// Checksum function number, 0 to inherit from the dataset.
    pub checksum: u8,
    /// Compression function number, 0 to inherit from the dataset.
    pub compression: u8,
    /// `FLAG_*`.
    pub flags: u8,
    /// Bytes of a data block.
    pub data_block_size: u64,
    /// 512-byte slots beyond the first.
    pub extra_slots: u8,
    /// The highest block number ever allocated.
    pub block_id_max: BlockId,
    /// Space used, as stored: see [`Self::used_bytes`].
    pub used: u64,
    /// The 1 to 3 pointers at the top of the block tree.
    pub block_pointers: Vec<BlockPointer>,
    /// The used part of the bonus buffer.
    pub bonus: Vec<u8>,
    /// The spill block's pointer.
    pub spill: Option<BlockPointer>,
}

impl Dnode {
    /// Decodes the dnode at the start of `bytes`; `None` for a free slot.
    ///
    /// `bytes` must reach to the end of the dnode's slots.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, DecodeError> {
        let core: [u8; DNODE_CORE_SIZE] = wire::array(bytes, 0, STRUCTURE)?;
        if core[0] == 0 {
            return Ok(None);
        }
        let extra_slots = core[12];
        let slots = usize::from(extra_slots) + 1;
        if slots > DNODE_SLOTS_MAX {
            return bad("extra slots", u64::from(extra_slots));
        }
        let bytes = wire::slice(bytes, 0, slots * DNODE_SIZE, STRUCTURE)?;
        let flags = core[7];
        let (block_pointers, bonus_start) = decode_block_pointers(bytes, core[3])?;
        let spill_start = bytes.len() - BLOCK_POINTER_SIZE;
        let has_spill = flags & FLAG_SPILL_BLKPTR != 0;
        let bonus_end = if has_spill { spill_start } else { bytes.len() };
        let bonus_length = usize::from(wire::u16_le(&core, 10, STRUCTURE)?);
        if bonus_start > bonus_end || bonus_length > bonus_end - bonus_start {
            return bad("bonus length", bonus_length as u64);
        }
        let spill = match has_spill {
            true => Some(BlockPointer::decode(&bytes[spill_start..])?),
            false => None,
        };
        let dnode = Self {
            object_type: ObjectType(core[0]),
            indirect_shift: core[1],
            levels: core[2],
            bonus_type: ObjectType(core[4]),
            checksum: core[5],
            compression: core[6],
            flags,
            data_block_size: u64::from(wire::u16_le(&core, 8, STRUCTURE)?) * SECTOR_SIZE,
            extra_slots,
            block_id_max: BlockId(wire::u64_le(&core, 16, STRUCTURE)?),
            used: wire::u64_le(&core, 24, STRUCTURE)?,
            block_pointers,
            bonus: bytes[bonus_start..bonus_start + bonus_length].to_vec(),
            spill,
        };
        dnode.check()?;
        Ok(Some(dnode))
    }

    /// The bytes of all slots. The bonus buffer is zero behind its used part.
    pub fn encode(&self) -> Vec<u8> {
        let count = self.block_pointers.len();
        assert!((1..=3).contains(&count), "a dnode has 1 to 3 pointers");
        assert_eq!(self.spill.is_some(), self.flags & FLAG_SPILL_BLKPTR != 0);
        let mut bytes = vec![0; self.slots() * DNODE_SIZE];
        let sectors = self.data_block_size / SECTOR_SIZE;
        let sectors = u16::try_from(sectors).expect("blocks are at most 16 MiB");
        let bonus_length = u16::try_from(self.bonus.len()).expect("a dnode is at most 16 KiB");
        bytes[..8].copy_from_slice(&[
            self.object_type.0,
            self.indirect_shift,
            self.levels,
            count as u8,
            self.bonus_type.0,
            self.checksum,
            self.compression,
            self.flags,
        ]);
        bytes[8..10].copy_from_slice(&sectors.to_le_bytes());
        bytes[10..12].copy_from_slice(&bonus_length.to_le_bytes());
        bytes[12] = self.extra_slots;
        bytes[16..24].copy_from_slice(&self.block_id_max.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.used.to_le_bytes());
        let bonus_start = DNODE_CORE_SIZE + count * BLOCK_POINTER_SIZE;
        let pointers = bytes[DNODE_CORE_SIZE..bonus_start].chunks_exact_mut(BLOCK_POINTER_SIZE);
        for (chunk, pointer) in pointers.zip(&self.block_pointers) {
            chunk.copy_from_slice(&pointer.encode());
        }
        let spill_start = bytes.len() - BLOCK_POINTER_SIZE;
        let bonus_end = match &self.spill {
            Some(pointer) => {
                bytes[spill_start..].copy_from_slice(&pointer.encode());
                spill_start
            }
            None => bytes.len(),
        };
        assert!(
            self.bonus.len() <= bonus_end - bonus_start,
            "the bonus buffer fits"
        );
        bytes[bonus_start..bonus_start + self.bonus.len()].copy_from_slice(&self.bonus);
        bytes
    }

    fn check(&self) -> Result<(), DecodeError> {
        if !self.object_type.is_valid() {
            return bad("type", u64::from(self.object_type.0));
        }
        if self.levels == 0 || self.levels > LEVELS_MAX {
            return bad("levels", u64::from(self.levels));
        }
        if !(INDIRECT_SHIFT_MIN..=INDIRECT_SHIFT_MAX).contains(&self.indirect_shift) {
            return bad("indirect block shift", u64::from(self.indirect_shift));
        }
        if self.data_block_size == 0 || self.data_block_size > cenote_base::BLOCK_SIZE_MAX {
            return bad("data block size", self.data_block_size);
        }
        Ok(())
    }

    /// The 512-byte slots that the dnode takes.
    pub fn slots(&self) -> usize {
        usize::from(self.extra_slots) + 1
    }

    /// Space used in bytes.
    pub fn used_bytes(&self) -> u64 {
        if self.flags & FLAG_USED_BYTES != 0 {
            self.used
        } else {
            self.used.saturating_mul(512)
        }
    }

    /// log2 of the number of block pointers in an indirect block.
    pub fn indirect_fanout_shift(&self) -> u32 {
        u32::from(self.indirect_shift) - BLOCK_POINTER_SHIFT
    }

    /// Bytes of an indirect block.
    pub fn indirect_block_size(&self) -> u64 {
        1 << self.indirect_shift
    }

    /// How far to shift a block id at `level` right for the index of the dnode's own pointer
    /// above it, or `None` when every id of that level lies below pointer 0.
    pub fn top_shift(&self, level: u8) -> Option<u32> {
        assert!(level < self.levels);
        let shift = self.indirect_fanout_shift() * u32::from(self.levels - 1 - level);
        (shift < u64::BITS).then_some(shift)
    }

    /// The index among the dnode's own pointers of the tree that holds `block` of `level`.
    ///
    /// `None` when the tree does not reach so far: the block is a hole.
    pub fn top_index(&self, level: u8, block: BlockId) -> Option<usize> {
        let index = self.top_shift(level).map_or(0, |shift| block.0 >> shift);
        usize::try_from(index)
            .ok()
            .filter(|index| *index < self.block_pointers.len())
    }
}

fn bad<T>(field: &'static str, value: u64) -> Result<T, DecodeError> {
    Err(DecodeError::BadValue {
        structure: STRUCTURE,
        field,
        value,
    })
}

fn decode_block_pointers(
    bytes: &[u8],
    count: u8,
) -> Result<(Vec<BlockPointer>, usize), DecodeError> {
    if count == 0 || count > 3 {
        return bad("number of block pointers", u64::from(count));
    }
    let end = DNODE_CORE_SIZE + usize::from(count) * BLOCK_POINTER_SIZE;
    let pointers = wire::slice(bytes, DNODE_CORE_SIZE, end - DNODE_CORE_SIZE, STRUCTURE)?;
    let pointers = pointers
        .chunks_exact(BLOCK_POINTER_SIZE)
        .map(BlockPointer::decode)
        .collect::<Result<_, _>>()?;
    Ok((pointers, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain_file() -> [u8; DNODE_SIZE] {
        let mut bytes = [0; DNODE_SIZE];
        bytes[..13].copy_from_slice(&[19, 17, 2, 1, 44, 0, 0, 3, 0, 1, 168, 0, 0]);
        bytes[16] = 5;
        bytes[192] = 0xAA;
        bytes
    }

    #[test]
    fn decodes_the_fields() {
        let dnode = Dnode::decode(&plain_file())
            .expect("a valid dnode")
            .expect("allocated");
        assert_eq!(dnode.object_type, ObjectType::PLAIN_FILE);
        assert_eq!((dnode.levels, dnode.data_block_size), (2, 131_072));
        assert_eq!((dnode.bonus.len(), dnode.bonus[0]), (168, 0xAA));
        assert_eq!(dnode.encode(), plain_file());
        assert_eq!(dnode.block_id_max, BlockId(5));
        assert_eq!(dnode.top_index(0, BlockId(1023)), Some(0));
        assert_eq!(
            dnode.top_index(0, BlockId(1024)),
            None,
            "one pointer to 1024 blocks"
        );
    }

    #[test]
    fn spilled_and_large_dnodes_survive() {
        let mut bytes = plain_file().to_vec();
        bytes.resize(2 * DNODE_SIZE, 0);
        (bytes[7], bytes[12]) = (FLAG_SPILL_BLKPTR | FLAG_USED_BYTES, 1);
        bytes[24] = 77;
        bytes[2 * DNODE_SIZE - BLOCK_POINTER_SIZE] = 8;
        let dnode = Dnode::decode(&bytes).expect("valid").expect("allocated");
        assert_eq!((dnode.slots(), dnode.used_bytes()), (2, 77));
        assert!(dnode.spill.is_some_and(|spill| !spill.is_hole()));
        assert_eq!(dnode.encode(), bytes);
        assert!(
            Dnode::decode(&bytes[..600]).is_err(),
            "the second slot is missing"
        );
    }

    #[test]
    fn free_slots_and_nonsense() {
        assert_eq!(Dnode::decode(&[0; DNODE_SIZE]), Ok(None));
        for (offset, value) in [
            (1, 7),
            (2, 0),
            (2, 13),
            (3, 0),
            (3, 4),
            (9, 200),
            (11, 9),
            (12, 1),
        ] {
            let mut bytes = plain_file();
            bytes[offset] = value;
            assert!(Dnode::decode(&bytes).is_err(), "byte {offset} = {value}");
        }
    }
}
