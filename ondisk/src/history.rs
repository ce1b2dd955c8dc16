//! The pool's history: a ring of records, the first of which is never overwritten.
//!
//! Source: format/1b 5. Bonus buffer (40 bytes):
//! `0 end of the first record  8 size of the log  16 begin  24 end  32 records lost`. Begin and
//! end are logical offsets that only grow; the log wraps to after the first record. A record is
//! its length (u64, little-endian on every host) and a native name-value list.

use crate::wire;
use crate::{DecodeError, NvList};
use std::ops::Range;

/// Bytes of the bonus buffer.
pub const HISTORY_HEADER_SIZE: usize = 40;
/// Bytes of a record's length.
pub const LENGTH_SIZE: usize = 8;
/// The longest record that is read.
pub const RECORD_SIZE_MAX: u64 = 1 << 20;

const STRUCTURE: &str = "pool history";
const LOG_SIZE_MAX: u64 = 1 << 30;

/// The bonus buffer of the history object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryHeader {
    /// Where the part that wraps begins: after the record of the pool's creation.
    pub creation_end: u64,
    /// Bytes of the log.
    pub physical_end: u64,
    /// Logical offset of the oldest record but the first.
    pub begin: u64,
    /// Logical offset of the next record.
    pub end: u64,
    /// How many records have been overwritten.
    pub records_lost: u64,
}

impl HistoryHeader {
    /// Decodes a bonus buffer.
    pub fn decode(bonus: &[u8]) -> Result<Self, DecodeError> {
        let word = |offset| wire::u64_le(bonus, offset, STRUCTURE);
        let header = Self {
            creation_end: word(0)?,
            physical_end: word(8)?,
            begin: word(16)?,
            end: word(24)?,
            records_lost: word(32)?,
        };
        let room = header.physical_end.checked_sub(header.creation_end);
        let used = header.end.checked_sub(header.begin);
        let (Some(room @ 1..=LOG_SIZE_MAX), Some(used)) = (room, used) else {
            return INCONSISTENT;
        };
        if header.begin < header.creation_end || used > room {
            return INCONSISTENT;
        }
        Ok(header)
    }

    /// The bonus buffer.
    pub fn encode(&self) -> [u8; HISTORY_HEADER_SIZE] {
        wire::words_to_bytes(&[
            self.creation_end,
            self.physical_end,
            self.begin,
            self.end,
            self.records_lost,
        ])
    }

    /// The logical ranges that hold records, oldest first: the creation, and the rest.
    pub fn logical_ranges(&self) -> [Range<u64>; 2] {
        [0..self.creation_end, self.begin..self.end]
    }

    /// The physical pieces of a logical range that is within [`Self::logical_ranges`]: one, or
    /// two if it wraps.
    pub fn physical_pieces(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut pieces = Vec::with_capacity(2);
        let (mut at, end) = (range.start, range.end);
        let ring = self.physical_end - self.creation_end;
        while at < end && pieces.len() < 3 {
            let (physical, room) = if at < self.creation_end {
                (at, self.creation_end - at)
            } else {
                let offset = (at - self.creation_end) % ring;
                (self.creation_end + offset, ring - offset)
            };
            let length = room.min(end - at);
            pieces.push(physical..physical + length);
            at += length;
        }
        pieces
    }
}

const INCONSISTENT: Result<HistoryHeader, DecodeError> = Err(DecodeError::Inconsistent {
    structure: STRUCTURE,
    problem: "the log's offsets contradict each other",
});

/// Reads records from the bytes of a logical range. Ends after the first error.
#[derive(Clone, Debug)]
pub struct HistoryRecords<'a> {
    bytes: &'a [u8],
}

impl<'a> HistoryRecords<'a> {
    /// The records in `bytes`, which start at a record.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    fn record(&mut self) -> Result<NvList, DecodeError> {
        let length = wire::u64_le(self.bytes, 0, STRUCTURE)?;
        if length > RECORD_SIZE_MAX {
            return Err(DecodeError::BadValue {
                structure: STRUCTURE,
                field: "length of a record",
                value: length,
            });
        }
        let record = wire::slice(self.bytes, LENGTH_SIZE, length as usize, STRUCTURE)?;
        self.bytes = &self.bytes[LENGTH_SIZE + record.len()..];
        NvList::decode(record)
    }
}

impl Iterator for HistoryRecords<'_> {
    type Item = Result<NvList, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() {
            return None;
        }
        let record = self.record();
        if record.is_err() {
            self.bytes = &[];
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_wraps_behind_the_creation_record() {
        let header = HistoryHeader {
            creation_end: 100,
            physical_end: 1100,
            begin: 1950,
            end: 2200,
            records_lost: 3,
        };
        assert_eq!(HistoryHeader::decode(&header.encode()), Ok(header));
        let [creation, rest] = header.logical_ranges();
        assert_eq!(header.physical_pieces(creation).first(), Some(&(0..100)));
        assert_eq!(header.physical_pieces(rest), [950..1100, 100..200]);
        assert_eq!(header.physical_pieces(1950..2000).len(), 1);
    }

    #[test]
    fn contradictions_are_refused() {
        for (creation_end, physical_end, begin, end) in
            [(9, 9, 9, 9), (0, 10, 5, 4), (5, 10, 4, 6), (0, 10, 0, 11)]
        {
            let header = HistoryHeader {
                creation_end,
                physical_end,
                begin,
                end,
                records_lost: 0,
            };
            assert!(
                HistoryHeader::decode(&header.encode()).is_err(),
                "{header:?}"
            );
        }
    }

    #[test]
    fn records_are_length_and_list() {
        let mut list = NvList::new();
        list.set_u64("history time", 1);
        let packed = list.encode_xdr();
        let mut bytes = (packed.len() as u64).to_le_bytes().to_vec();
        bytes.extend(&packed);
        bytes.extend(u64::MAX.to_le_bytes());
        let mut records = HistoryRecords::new(&bytes);
        assert_eq!(records.next(), Some(Ok(list)));
        assert!(records.next().is_some_and(|record| record.is_err()));
        assert_eq!(records.next(), None);
    }
}
