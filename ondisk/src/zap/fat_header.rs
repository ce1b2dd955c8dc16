//! The header block of a fat ZAP and its pointer table (format/2b 5.2).
//!
//! ```text
//!  0 block type    8 magic
//! 16 first table block (0: embedded)  24 table blocks  32 table shift
//! 40 start of the next table, while it is copied       48 blocks copied
//! 56 next free block  64 leaves  72 entries  80 salt  88 normalization flags  96 flags
//! size/2 embedded table: size/16 pointers
//! ```
//!
//! The table has 2^shift pointers: pointer *i* is the block of the leaf for hashes whose top
//! `shift` bits are *i*. A leaf with a shorter prefix is pointed to by several adjacent ones.
//! While a table is being doubled the old one stays valid.

use super::{BLOCK_TYPE_HEADER, hash};
use crate::DecodeError;
use crate::wire;
use cenote_base::BlockId;

/// Hashes have 48 bits instead of 28.
pub const FLAG_HASH64: u64 = 1;
/// Keys are arrays of numbers instead of names.
pub const FLAG_UINT64_KEY: u64 = 2;
/// The first word of a key is its hash.
pub const FLAG_PRE_HASHED_KEY: u64 = 4;
/// Block sizes that a fat ZAP can have, as log2. Chunks are counted in 16 bits, so that a leaf
/// of more than 1 MiB could not address its own.
pub const BLOCK_SHIFTS: std::ops::RangeInclusive<u32> = 9..=20;

const STRUCTURE: &str = "fat ZAP header";
const MAGIC: u64 = 0x2_F52A_B2AB;
const POINTER_SIZE: u64 = 8;

/// A fat ZAP's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FatHeader {
    /// log2 of the block size.
    pub block_shift: u32,
    /// First block of the pointer table, or `None` when it is in the header block.
    pub table_block: Option<BlockId>,
    /// Blocks of the pointer table, if it is not in the header block.
    pub table_blocks: u64,
    /// log2 of the number of pointers.
    pub table_shift: u32,
    /// First block of the table of twice the size that is being filled, if any.
    pub next_table_block: Option<BlockId>,
    /// Blocks of the present table that have been copied to the next.
    pub blocks_copied: u64,
    /// The first block never used.
    pub free_block: BlockId,
    /// Number of leaves.
    pub leaves: u64,
    /// Number of entries.
    pub entries: u64,
    /// What hashes start from.
    pub salt: u64,
    /// How names are normalized; 0 for not at all.
    pub normflags: u64,
    /// `FLAG_*`.
    pub flags: u64,
}

/// Where a pointer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointerPlace {
    /// The block: 0 is the header block.
    pub block: BlockId,
    /// Bytes from the block's start.
    pub offset: usize,
}

impl FatHeader {
    /// Decodes block 0 of a fat ZAP.
    pub fn decode(block: &[u8]) -> Result<Self, DecodeError> {
        let word = |offset| wire::u64_le(block, offset, STRUCTURE);
        for (offset, expected) in [(0, BLOCK_TYPE_HEADER), (8, MAGIC)] {
            let found = word(offset)?;
            if found != expected {
                return Err(DecodeError::BadMagic {
                    structure: STRUCTURE,
                    found,
                    expected,
                });
            }
        }
        let table_shift = word(32)?;
        let header = Self {
            block_shift: block_shift(block.len(), STRUCTURE)?,
            table_block: Some(BlockId(word(16)?)).filter(|block| block.0 != 0),
            table_blocks: word(24)?,
            table_shift: u32::try_from(table_shift).unwrap_or(u32::MAX),
            next_table_block: Some(BlockId(word(40)?)).filter(|block| block.0 != 0),
            blocks_copied: word(48)?,
            free_block: BlockId(word(56)?),
            leaves: word(64)?,
            entries: word(72)?,
            salt: word(80)?,
            normflags: word(88)?,
            flags: word(96)?,
        };
        header.check_table()?;
        Ok(header)
    }

    /// Writes the header's words into block 0; what else is in the block stays.
    pub fn encode_into(&self, block: &mut [u8]) {
        let block_id = |block: Option<BlockId>| block.unwrap_or_default().0;
        let words = [
            BLOCK_TYPE_HEADER,
            MAGIC,
            block_id(self.table_block),
            self.table_blocks,
            u64::from(self.table_shift),
            block_id(self.next_table_block),
            self.blocks_copied,
            self.free_block.0,
            self.leaves,
            self.entries,
            self.salt,
            self.normflags,
            self.flags,
        ];
        for (target, word) in block.chunks_exact_mut(8).zip(words) {
            target.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// The header of a new ZAP with one leaf, block 1, and the table in the header block.
    pub fn new(block_shift: u32, salt: u64, normflags: u64, flags: u64) -> Self {
        assert!(BLOCK_SHIFTS.contains(&block_shift));
        Self {
            block_shift,
            table_block: None,
            table_blocks: 0,
            table_shift: block_shift - 4,
            next_table_block: None,
            blocks_copied: 0,
            free_block: BlockId(2),
            leaves: 1,
            entries: 0,
            salt,
            normflags,
            flags,
        }
    }

    fn check_table(&self) -> Result<(), DecodeError> {
        let known = FLAG_HASH64 | FLAG_UINT64_KEY | FLAG_PRE_HASHED_KEY;
        if self.flags & !known != 0 {
            return bad("flags", self.flags);
        }
        if self.table_shift == 0 || self.table_shift > self.hash_bits() {
            return bad("table shift", u64::from(self.table_shift));
        }
        let pointers = 1_u64 << self.table_shift;
        let room = match self.table_block {
            None => Some(1 << (self.block_shift - 4)),
            Some(_) => self.table_blocks.checked_mul(1 << (self.block_shift - 3)),
        };
        if room != Some(pointers) {
            return Err(DecodeError::Inconsistent {
                structure: STRUCTURE,
                problem: "the pointer table's size does not match its shift",
            });
        }
        let end = self.table_block.unwrap_or_default().0;
        if end.checked_add(self.table_blocks).is_none() {
            return bad("first table block", end);
        }
        Ok(())
    }

    /// Bits of a hash that count.
    pub fn hash_bits(&self) -> u32 {
        if self.flags & FLAG_HASH64 != 0 {
            hash::HASH_BITS_64
        } else {
            hash::HASH_BITS
        }
    }

    /// Whether keys are arrays of numbers.
    pub fn has_word_keys(&self) -> bool {
        self.flags & FLAG_UINT64_KEY != 0
    }

    /// The hash of a name that is normalized already.
    pub fn hash_name(&self, name: &[u8]) -> u64 {
        hash::hash_name(self.salt, name, self.hash_bits())
    }

    /// The hash of a key of numbers.
    pub fn hash_words(&self, words: &[u64]) -> u64 {
        if self.flags & FLAG_PRE_HASHED_KEY != 0 {
            hash::cut(words.first().copied().unwrap_or(0), self.hash_bits())
        } else {
            hash::hash_words(self.salt, words, self.hash_bits())
        }
    }

    /// Pointers in the table.
    pub fn pointers(&self) -> u64 {
        1 << self.table_shift
    }

    /// The index of the pointer for `hash`.
    pub fn pointer_index(&self, hash: u64) -> u64 {
        hash >> (64 - self.table_shift)
    }

    /// Where pointer `index` stands.
    pub fn pointer_place(&self, index: u64) -> PointerPlace {
        assert!(index < self.pointers());
        match self.table_block {
            None => PointerPlace {
                block: BlockId(0),
                offset: (1 << (self.block_shift - 1)) + (index * POINTER_SIZE) as usize,
            },
            Some(first) => {
                let per_block_shift = self.block_shift - 3;
                let in_block = index & ((1 << per_block_shift) - 1);
                PointerPlace {
                    block: BlockId(first.0 + (index >> per_block_shift)),
                    offset: (in_block * POINTER_SIZE) as usize,
                }
            }
        }
    }

    /// The leaf block that the pointer at `place` of `block` names.
    pub fn pointer(&self, block: &[u8], place: PointerPlace) -> Result<BlockId, DecodeError> {
        let leaf = wire::u64_le(block, place.offset, STRUCTURE)?;
        if leaf == 0 || leaf >= self.free_block.0 {
            return bad("pointer to leaf", leaf);
        }
        Ok(BlockId(leaf))
    }

    /// Whether a leaf with this prefix belongs at pointer `index`.
    pub fn leaf_belongs(&self, index: u64, prefix: u64, prefix_length: u32) -> bool {
        prefix_length <= self.table_shift && index >> (self.table_shift - prefix_length) == prefix
    }

    /// The first pointer after those to the leaf at `index`, which has this prefix length;
    /// `None` at the end of the table.
    pub fn next_leaf_index(&self, index: u64, prefix_length: u32) -> Option<u64> {
        let span = self.table_shift.saturating_sub(prefix_length);
        let next = ((index >> span) + 1) << span;
        (next < self.pointers()).then_some(next)
    }
}

/// log2 of a fat ZAP's block size.
pub(super) fn block_shift(length: usize, structure: &'static str) -> Result<u32, DecodeError> {
    if length.is_power_of_two() && BLOCK_SHIFTS.contains(&length.ilog2()) {
        return Ok(length.ilog2());
    }
    Err(DecodeError::BadValue {
        structure,
        field: "block size",
        value: length as u64,
    })
}

fn bad<T>(field: &'static str, value: u64) -> Result<T, DecodeError> {
    Err(DecodeError::BadValue {
        structure: STRUCTURE,
        field,
        value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(words: &[(usize, u64)]) -> Vec<u8> {
        let mut block = vec![0; 4096];
        let fixed = [(0, BLOCK_TYPE_HEADER), (1, MAGIC), (4, 8), (7, 3), (10, 77)];
        for (word, value) in fixed.iter().chain(words) {
            block[8 * word..8 * word + 8].copy_from_slice(&value.to_le_bytes());
        }
        block
    }

    #[test]
    fn embedded_table() {
        let bytes = block(&[(256 + 255, 2), (256, 1), (256 + 7, 9)]);
        let header = FatHeader::decode(&bytes).expect("valid");
        assert_eq!((header.pointers(), header.hash_bits()), (256, 28));
        let index = header.pointer_index(0xff << 56);
        let place = header.pointer_place(index);
        assert_eq!((place.block, place.offset), (BlockId(0), 4088));
        assert_eq!(header.pointer(&bytes, place), Ok(BlockId(2)));
        assert!(
            header.pointer(&bytes, header.pointer_place(7)).is_err(),
            "not allocated"
        );
        assert!(header.leaf_belongs(255, 1, 1) && !header.leaf_belongs(255, 0, 1));
        assert_eq!(header.next_leaf_index(3, 1), Some(128));
        assert_eq!(header.next_leaf_index(200, 1), None);
    }

    #[test]
    fn encoding_is_inverse() {
        let mut bytes = vec![0; 16384];
        let mut header = FatHeader::new(14, 77, 0x12, FLAG_HASH64);
        header.encode_into(&mut bytes);
        assert_eq!(FatHeader::decode(&bytes), Ok(header.clone()));
        header.table_block = Some(BlockId(9));
        (header.table_blocks, header.table_shift) = (2, 12);
        header.next_table_block = Some(BlockId(11));
        (header.blocks_copied, header.free_block) = (1, BlockId(20));
        header.encode_into(&mut bytes);
        assert_eq!(FatHeader::decode(&bytes), Ok(header));
    }

    #[test]
    fn external_table() {
        let words = [
            (2, 40),
            (3, 4),
            (4, 11),
            (12, FLAG_HASH64 | FLAG_UINT64_KEY),
        ];
        let header = FatHeader::decode(&block(&words)).expect("valid");
        assert!(header.has_word_keys() && header.hash_bits() == 48);
        let place = header.pointer_place(1025);
        assert_eq!((place.block, place.offset), (BlockId(42), 8));
        let mut prehashed = header.clone();
        prehashed.flags |= FLAG_PRE_HASHED_KEY;
        assert_eq!(prehashed.hash_words(&[u64::MAX, 1]), u64::MAX << 16);
    }

    #[test]
    fn nonsense_is_refused() {
        for words in [
            [(4, 9)].as_slice(),
            &[(4, 0)],
            &[(4, 64)],
            &[(2, 1), (3, u64::MAX), (4, 8)],
            &[(2, u64::MAX), (3, 4), (4, 11)],
            &[(12, 8)],
            &[(1, 0)],
        ] {
            assert!(FatHeader::decode(&block(words)).is_err(), "{words:?}");
        }
        assert!(
            FatHeader::decode(&block(&[])[..3000]).is_err(),
            "no power of two"
        );
    }
}
