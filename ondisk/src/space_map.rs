//! Space maps: logs of allocations and frees, and of other sets of ranges.
//!
//! Source: format/1d 2. The bonus buffer (24 bytes, or 320 with the feature
//! `spacemap_histogram`):
//!
//! ```text
//! 0 own object     8 bytes of entries  16 allocated bytes (signed)  24 pad (40)
//! 64 histogram: 32 counts of free segments by size
//! ```
//!
//! The data is 64-bit words; offsets and runs count units of 2^shift bytes from the map's start:
//!
//! ```text
//! debug     | 2 | action:2 | sync pass:10 | txg:50                 |
//! one word  | 0 | offset:47            | free:1 | run-1:15         |
//! two words | 3 | 0:2 | run-1:36 | vdev:24 |   | free:1 | offset:63 |
//! ```
//!
//! A two-word entry never straddles a block of the object, so that blocks decode one by one.
//! The same structure holds metaslabs' allocations, logs of a txg's changes (with vdevs),
//! checkpoints, dirty time logs (units are txgs) and obsolete ranges: only start, shift and
//! meaning differ.

use crate::DecodeError;
use crate::wire::{self, bits, with_bits};
use cenote_base::{ObjectId, Txg, VdevId};

/// Bytes of the bonus buffer without a histogram.
pub const HEADER_SIZE: usize = 24;
/// Bytes of the bonus buffer with a histogram.
pub const HEADER_SIZE_HISTOGRAM: usize = 320;
/// Buckets of the histogram.
pub const HISTOGRAM_BUCKETS: usize = 32;
/// The longest run of a one-word entry, in units.
pub const ONE_WORD_RUN_MAX: u64 = 1 << 15;
/// The first offset that no longer fits a one-word entry, in units.
pub const ONE_WORD_OFFSET_END: u64 = 1 << 47;
/// The longest run of a two-word entry, in units.
pub const TWO_WORD_RUN_MAX: u64 = 1 << 36;
/// The shift of log space maps: they count sectors.
pub const LOG_SHIFT: u32 = 9;

const STRUCTURE: &str = "space map";
const WORD: usize = 8;
const PREFIX_DEBUG: u64 = 2;
const PREFIX_TWO_WORDS: u64 = 3;

/// The bonus buffer of a space map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceMapHeader {
    /// The map's own object number. Old software left it 0, and nothing depends on it.
    pub object: ObjectId,
    /// Bytes of entries in the object's data.
    pub length: u64,
    /// Allocated minus freed bytes by the entries. Negative in checkpoints' maps.
    pub allocated: i64,
    /// Free segments of 2^(i+shift) bytes and more, less than twice that.
    pub histogram: Option<[u64; HISTOGRAM_BUCKETS]>,
}

impl SpaceMapHeader {
    /// Decodes a bonus buffer.
    pub fn decode(bonus: &[u8]) -> Result<Self, DecodeError> {
        let length = wire::u64_le(bonus, 8, STRUCTURE)?;
        if !length.is_multiple_of(WORD as u64) {
            return bad("length", length);
        }
        let histogram = match bonus.len() >= HEADER_SIZE_HISTOGRAM {
            false => None,
            true => {
                let mut histogram = [0; HISTOGRAM_BUCKETS];
                for (i, bucket) in histogram.iter_mut().enumerate() {
                    *bucket = wire::u64_le(bonus, 64 + WORD * i, STRUCTURE)?;
                }
                Some(histogram)
            }
        };
        Ok(Self {
            object: ObjectId(wire::u64_le(bonus, 0, STRUCTURE)?),
            length,
            allocated: wire::u64_le(bonus, 16, STRUCTURE)? as i64,
            histogram,
        })
    }

    /// The bonus buffer: 320 bytes with a histogram, else 24.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_SIZE];
        bytes[..8].copy_from_slice(&self.object.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.allocated.to_le_bytes());
        if let Some(histogram) = &self.histogram {
            bytes.resize(64, 0);
            bytes.extend(histogram.iter().flat_map(|count| count.to_le_bytes()));
        }
        bytes
    }
}

/// What an entry does to its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Adds it to the set: allocated, missed, obsolete.
    Alloc,
    /// Removes it.
    Free,
}

impl Action {
    fn from_bit(bit: u64) -> Self {
        if bit == 0 { Self::Alloc } else { Self::Free }
    }

    fn bit(self) -> u64 {
        match self {
            Self::Alloc => 0,
            Self::Free => 1,
        }
    }
}

/// A range that was added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceMapEntry {
    /// What happened to it.
    pub action: Action,
    /// The vdev, in log space maps; 0 and without meaning in all others.
    pub vdev: VdevId,
    /// Where the range starts, in bytes (of dirty time logs: txgs).
    pub offset: u64,
    /// Its length, in the same unit; never 0.
    pub length: u64,
}

/// A word or two of a space map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceMapItem {
    /// A range.
    Entry(SpaceMapEntry),
    /// What the next entries are about.
    Debug {
        /// What they do.
        action: Action,
        /// The pass of the sync.
        sync_pass: u64,
        /// The txg.
        txg: Txg,
    },
    /// Fills the last word of a block.
    Padding,
}

/// Iterates over the words of a block, or of a run of whole blocks, of a space map.
///
/// Ends after the first error.
#[derive(Clone, Debug)]
pub struct SpaceMapItems<'a> {
    bytes: &'a [u8],
    position: usize,
    start: u64,
    shift: u32,
}

impl<'a> SpaceMapItems<'a> {
    /// The items in `bytes`: the part of a block below the header's length. The map starts at
    /// `start` and counts units of 2^`shift` bytes.
    pub fn new(bytes: &'a [u8], start: u64, shift: u32) -> Self {
        assert!(shift < 64);
        Self {
            bytes,
            position: 0,
            start,
            shift,
        }
    }

    /// Only the ranges.
    pub fn entries(self) -> impl Iterator<Item = Result<SpaceMapEntry, DecodeError>> + use<'a> {
        self.filter_map(|item| match item {
            Ok(SpaceMapItem::Entry(entry)) => Some(Ok(entry)),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        })
    }

    fn word(&mut self) -> Result<u64, DecodeError> {
        let word = wire::u64_le(self.bytes, self.position, STRUCTURE)?;
        self.position += WORD;
        Ok(word)
    }

    fn item(&mut self) -> Result<SpaceMapItem, DecodeError> {
        let word = self.word()?;
        if word >> 63 == 0 {
            let (offset, run) = (bits(word, 16, 47), bits(word, 0, 15) + 1);
            return self.entry(bits(word, 15, 1), VdevId(0), offset, run);
        }
        if bits(word, 62, 2) == PREFIX_TWO_WORDS {
            let second = self.word()?;
            let (vdev, run) = (VdevId(bits(word, 0, 24)), bits(word, 24, 36) + 1);
            return self.entry(bits(second, 63, 1), vdev, bits(second, 0, 63), run);
        }
        Ok(match (bits(word, 60, 2), bits(word, 0, 50)) {
            (0, 0) if bits(word, 50, 10) == 0 => SpaceMapItem::Padding,
            (action, txg) => SpaceMapItem::Debug {
                action: Action::from_bit(action),
                sync_pass: bits(word, 50, 10),
                txg: Txg(txg),
            },
        })
    }

    /// An entry in bytes; the end must be a 64-bit number.
    fn entry(
        &self,
        action: u64,
        vdev: VdevId,
        offset: u64,
        run: u64,
    ) -> Result<SpaceMapItem, DecodeError> {
        let to_bytes = |units: u64| units.checked_mul(1 << self.shift);
        let offset_bytes = to_bytes(offset).and_then(|bytes| bytes.checked_add(self.start));
        match (offset_bytes, to_bytes(run)) {
            (Some(offset), Some(length)) if offset.checked_add(length).is_some() => {
                Ok(SpaceMapItem::Entry(SpaceMapEntry {
                    action: Action::from_bit(action),
                    vdev,
                    offset,
                    length,
                }))
            }
            _ => bad("offset", offset),
        }
    }
}

impl Iterator for SpaceMapItems<'_> {
    type Item = Result<SpaceMapItem, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.position >= self.bytes.len() {
            return None;
        }
        let item = self.item();
        if item.is_err() {
            self.position = self.bytes.len();
        }
        Some(item)
    }
}

/// The word that fills up a block before a two-word entry.
pub const PADDING_WORD: u64 = PREFIX_DEBUG << 62;

/// A debug word.
pub fn encode_debug(action: Action, sync_pass: u64, txg: Txg) -> u64 {
    let word = with_bits(PADDING_WORD, 60, 2, action.bit());
    let word = with_bits(word, 50, 10, sync_pass.min(0x3ff));
    word | bits(txg.0, 0, 50)
}

/// A one-word entry of `run` units at `offset` units.
pub fn encode_one_word(action: Action, offset: u64, run: u64) -> u64 {
    assert!(offset < ONE_WORD_OFFSET_END && (1..=ONE_WORD_RUN_MAX).contains(&run));
    offset << 16 | action.bit() << 15 | (run - 1)
}

/// A two-word entry of `run` units at `offset` units of `vdev`; needs `spacemap_v2`.
pub fn encode_two_words(action: Action, vdev: VdevId, offset: u64, run: u64) -> [u64; 2] {
    assert!(vdev.0 < 1 << 24 && (1..=TWO_WORD_RUN_MAX).contains(&run));
    assert!(offset < 1 << 63);
    [
        PREFIX_TWO_WORDS << 62 | (run - 1) << 24 | vdev.0,
        action.bit() << 63 | offset,
    ]
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

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn every_kind_of_word() {
        let [first, second] = encode_two_words(Action::Free, VdevId(9), 1 << 50, 1 << 20);
        let words = [
            encode_debug(Action::Free, 3, Txg(77)),
            encode_one_word(Action::Alloc, 5, ONE_WORD_RUN_MAX),
            PADDING_WORD,
            first,
            second,
        ];
        let bytes = bytes(&words);
        let items: Result<Vec<_>, _> = SpaceMapItems::new(&bytes, 1 << 24, 12).collect();
        let entry = |action, vdev, offset, length| {
            SpaceMapItem::Entry(SpaceMapEntry {
                action,
                vdev: VdevId(vdev),
                offset,
                length,
            })
        };
        let expected = vec![
            SpaceMapItem::Debug {
                action: Action::Free,
                sync_pass: 3,
                txg: Txg(77),
            },
            entry(Action::Alloc, 0, (1 << 24) + 5 * 4096, 32_768 * 4096),
            SpaceMapItem::Padding,
            entry(Action::Free, 9, (1 << 24) + (1 << 62), 1 << 32),
        ];
        assert_eq!(items, Ok(expected));
        assert_eq!(SpaceMapItems::new(&bytes, 0, 9).entries().count(), 2);
    }

    #[test]
    fn hostile_words() {
        let cut = bytes(&[encode_two_words(Action::Alloc, VdevId(0), 1, 1)[0]]);
        assert!(
            SpaceMapItems::new(&cut, 0, 9)
                .next()
                .is_some_and(|item| item.is_err())
        );
        let far = bytes(&encode_two_words(
            Action::Alloc,
            VdevId(0),
            (1 << 63) - 1,
            1,
        ));
        let mut items = SpaceMapItems::new(&far, 0, 12);
        assert!(items.next().is_some_and(|item| item.is_err()));
        assert_eq!(items.next(), None, "iteration ends after an error");
        let partial = SpaceMapItems::new(&[0; 7], 0, 0).next();
        assert!(partial.is_some_and(|item| item.is_err()));
    }

    #[test]
    fn headers_with_and_without_histogram() {
        let mut header = SpaceMapHeader {
            object: ObjectId(68),
            length: 4096,
            allocated: -512,
            histogram: None,
        };
        assert_eq!(SpaceMapHeader::decode(&header.encode()), Ok(header.clone()));
        header.histogram = Some(std::array::from_fn(|i| i as u64));
        assert_eq!(header.encode().len(), HEADER_SIZE_HISTOGRAM);
        assert_eq!(SpaceMapHeader::decode(&header.encode()), Ok(header));
        assert!(SpaceMapHeader::decode(&[0; 23]).is_err());
    }
}
