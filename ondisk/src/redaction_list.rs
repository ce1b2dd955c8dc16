//! Redaction lists: the blocks that a redacted stream left out.
//!
//! Source: format/3a 9. An object of type 0xC3. The bonus buffer, or the spill block if there
//! are many snapshots: `0 last object  8 last block  16 entries  24 snapshots  32 their guids`.
//! The data: sorted records of 32 bytes,
//! `0 object  8 block  16 | block size / 512 : 16 | count - 1 : 48 |  24 pad`. That the count is
//! one less is what zdb says of our lists.

use crate::DecodeError;
use crate::wire::{self, bits};
use cenote_base::{BlockId, Guid, ObjectId, SECTOR_SIZE};

/// Bytes of a record.
pub const RECORD_SIZE: usize = 32;
/// Blocks that a record can count.
pub const RECORD_COUNT_MAX: u64 = 1 << 48;

const STRUCTURE: &str = "redaction list";
const HEADER_SIZE: usize = 32;

/// The header: in the bonus buffer or the spill block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedactionListHeader {
    /// How far the list has been built: [`u64::MAX`] in both when complete.
    pub last: (ObjectId, BlockId),
    /// Number of records.
    pub entries: u64,
    /// The snapshots against which it was redacted.
    pub snapshots: Vec<Guid>,
}

impl RedactionListHeader {
    /// How far a complete list reaches.
    pub const COMPLETE: (ObjectId, BlockId) = (ObjectId(u64::MAX), BlockId(u64::MAX));

    /// The bonus buffer or spill block.
    pub fn encode(&self) -> Vec<u8> {
        let (object, block) = self.last;
        let words = [object.0, block.0, self.entries, self.snapshots.len() as u64];
        let guids = self.snapshots.iter().map(|guid| guid.0);
        words
            .into_iter()
            .chain(guids)
            .flat_map(u64::to_le_bytes)
            .collect()
    }

    /// Decodes the bonus buffer or spill block.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let word = |offset| wire::u64_le(bytes, offset, STRUCTURE);
        let count = word(24)?;
        let room = (bytes.len() - HEADER_SIZE) / 8;
        if count > room as u64 {
            return Err(DecodeError::BadValue {
                structure: STRUCTURE,
                field: "number of snapshots",
                value: count,
            });
        }
        let guids = (0..count as usize).map(|i| word(HEADER_SIZE + 8 * i).map(Guid));
        Ok(Self {
            last: (ObjectId(word(0)?), BlockId(word(8)?)),
            entries: word(16)?,
            snapshots: guids.collect::<Result<_, _>>()?,
        })
    }

    /// Whether building the list was finished.
    pub fn is_complete(&self) -> bool {
        self.last == Self::COMPLETE
    }
}

/// A run of redacted blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedactionRecord {
    /// The object.
    pub object: ObjectId,
    /// The first block.
    pub block: BlockId,
    /// Bytes of each block.
    pub block_size: u64,
    /// Number of blocks.
    pub count: u64,
}

impl RedactionRecord {
    /// The record's bytes.
    pub fn encode(&self) -> [u8; RECORD_SIZE] {
        assert!((1..=RECORD_COUNT_MAX).contains(&self.count));
        let sectors = self.block_size / SECTOR_SIZE;
        assert!(self.block_size.is_multiple_of(SECTOR_SIZE) && sectors <= u64::from(u16::MAX));
        let words = [
            self.object.0,
            self.block.0,
            sectors << 48 | (self.count - 1),
            0,
        ];
        let mut bytes = [0; RECORD_SIZE];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Decodes a record.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let size_count = wire::u64_le(bytes, 16, STRUCTURE)?;
        Ok(Self {
            object: ObjectId(wire::u64_le(bytes, 0, STRUCTURE)?),
            block: BlockId(wire::u64_le(bytes, 8, STRUCTURE)?),
            block_size: bits(size_count, 48, 16) * SECTOR_SIZE,
            count: bits(size_count, 0, 48) + 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_records() {
        let words = [u64::MAX, u64::MAX, 1, 2, 77, 78];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let header = RedactionListHeader::decode(&bytes).expect("valid");
        assert!(header.is_complete());
        assert_eq!(header.snapshots, [Guid(77), Guid(78)]);
        assert_eq!(header.encode(), bytes);
        assert!(RedactionListHeader::decode(&bytes[..40]).is_err());
        assert!(RedactionListHeader::decode(&bytes[..31]).is_err());
        let words = [5, 6, 256 << 48 | 2, 0_u64];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let record = RedactionRecord::decode(&bytes).expect("valid");
        assert_eq!((record.block_size, record.count), (131_072, 3));
        assert_eq!(record.encode(), *bytes);
    }
}
