//! Device removal: its state, and the mapping from removed vdevs to where their blocks are.
//!
//! Source: format/1c 6. The mapping object (type 0xC3) has a bonus buffer of 24 or 32 bytes,
//! `0 highest offset  8 bytes mapped  16 entries  24 counts object`, and sorted entries:
//!
//! ```text
//! 0 | mark : 1 | source offset in sectors : 63 |   8 destination DVA (its asize: the length)
//! ```
//!
//! The births object has `0 entries` as its bonus and entries `0 offset  8 txg`: what lies below
//! the offset, and not below the entry before, was copied in that txg.

use crate::wire::{self, bits};
use crate::{DecodeError, Dva};
use cenote_base::{ObjectId, SECTOR_SIZE, Txg, VdevId};

/// Integers of the MOS directory's `com.delphix:removing` entry.
pub const REMOVING_WORDS: usize = 7;
/// Integers of the MOS directory's `com.delphix:condensing_indirect` entry.
pub const CONDENSING_WORDS: usize = 3;
/// Bytes of a mapping entry.
pub const MAPPING_ENTRY_SIZE: usize = 24;
/// Bytes of a births entry.
pub const BIRTH_ENTRY_SIZE: usize = 16;

const STRUCTURE: &str = "device removal";

/// How far a removal has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalState {
    /// None ever ran.
    None,
    /// Under way: the vdev is still read from.
    Removing,
    /// Ended.
    Finished,
    /// Stopped by the administrator.
    Canceled,
}

/// `com.delphix:removing`: the last or current removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removing {
    /// How far it has come.
    pub state: RemovalState,
    /// The vdev that is being removed.
    pub vdev: VdevId,
    /// The vdev that was removed last: the start of the chain of indirect vdevs.
    pub previous_indirect: Option<VdevId>,
    /// Seconds UTC.
    pub start_time: u64,
    /// Seconds UTC.
    pub end_time: u64,
    /// Bytes to copy.
    pub to_copy: u64,
    /// Bytes copied.
    pub copied: u64,
}

impl Removing {
    /// From the integers of the MOS directory's entry.
    pub fn from_words(words: &[u64]) -> Result<Self, DecodeError> {
        let [state, vdev, previous, start_time, end_time, to_copy, copied] = *words else {
            return bad("number of integers", words.len() as u64);
        };
        Ok(Self {
            state: match state {
                0 => RemovalState::None,
                1 => RemovalState::Removing,
                2 => RemovalState::Finished,
                3 => RemovalState::Canceled,
                state => return bad("state", state),
            },
            vdev: VdevId(vdev),
            previous_indirect: (previous != u64::MAX).then_some(VdevId(previous)),
            start_time,
            end_time,
            to_copy,
            copied,
        })
    }
}

/// The bonus buffer of a mapping object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingHeader {
    /// The first offset that no entry maps.
    pub offset_max: u64,
    /// Bytes mapped.
    pub bytes_mapped: u64,
    /// Number of entries.
    pub entries: u64,
    /// The object that counts obsolete bytes by entry (u32 each).
    pub counts: Option<ObjectId>,
}

impl MappingHeader {
    /// Decodes a bonus buffer of 24 or 32 bytes.
    pub fn decode(bonus: &[u8]) -> Result<Self, DecodeError> {
        let word = |offset| wire::u64_le(bonus, offset, STRUCTURE);
        let counts = match bonus.len() >= 32 {
            true => word(24)?,
            false => 0,
        };
        let entries = word(16)?;
        if entries > u64::MAX / MAPPING_ENTRY_SIZE as u64 {
            return bad("number of entries", entries);
        }
        Ok(Self {
            offset_max: word(0)?,
            bytes_mapped: word(8)?,
            entries,
            counts: Some(ObjectId(counts)).filter(|object| object.0 != 0),
        })
    }
}

/// A run of bytes that moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingEntry {
    /// Where it was, in bytes from the removed vdev's start.
    pub source: u64,
    /// Where it is; the asize is the length. The vdev may itself have been removed since.
    pub destination: Dva,
}

impl MappingEntry {
    /// Decodes an entry.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let source = bits(wire::u64_le(bytes, 0, STRUCTURE)?, 0, 63);
        let entry = Self {
            source: source.saturating_mul(SECTOR_SIZE),
            destination: Dva {
                word0: wire::u64_le(bytes, 8, STRUCTURE)?,
                word1: wire::u64_le(bytes, 16, STRUCTURE)?,
            },
        };
        if entry.length() == 0 || entry.source.checked_add(entry.length()).is_none() {
            return bad("source offset", source);
        }
        let destination = entry.destination.offset();
        if destination.checked_add(entry.length()).is_none() {
            return bad("destination offset", entry.destination.word1);
        }
        Ok(entry)
    }

    /// The entry's bytes.
    pub fn encode(&self) -> [u8; MAPPING_ENTRY_SIZE] {
        let source = self.source / SECTOR_SIZE;
        wire::words_to_bytes(&[source, self.destination.word0, self.destination.word1])
    }

    /// Bytes mapped.
    pub fn length(&self) -> u64 {
        self.destination.asize()
    }

    /// The first offset after the run.
    pub fn end(&self) -> u64 {
        self.source + self.length()
    }
}

/// Decodes the entries in a part of the mapping: each must start at or after the end of the
/// one before.
pub fn mapping_entries(bytes: &[u8]) -> Result<Vec<MappingEntry>, DecodeError> {
    let chunks = bytes.chunks_exact(MAPPING_ENTRY_SIZE);
    let entries = chunks.map(MappingEntry::decode);
    let entries: Vec<MappingEntry> = entries.collect::<Result<_, _>>()?;
    if entries
        .windows(2)
        .any(|pair| pair[0].end() > pair[1].source)
    {
        return Err(DecodeError::Inconsistent {
            structure: STRUCTURE,
            problem: "mapping entries overlap or are not sorted",
        });
    }
    Ok(entries)
}

/// When a part of a removed vdev was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BirthEntry {
    /// Offsets below this one, in bytes, that no earlier entry covers.
    pub offset: u64,
    /// The txg.
    pub physical_birth: Txg,
}

impl BirthEntry {
    /// Decodes an entry.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Ok(Self {
            offset: wire::u64_le(bytes, 0, STRUCTURE)?,
            physical_birth: Txg(wire::u64_le(bytes, 8, STRUCTURE)?),
        })
    }
}

/// The number of entries in a births object, from its bonus buffer.
pub fn birth_count(bonus: &[u8]) -> Result<u64, DecodeError> {
    wire::u64_le(bonus, 0, STRUCTURE)
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

    #[test]
    fn entries_must_ascend() {
        let entry = |source, length| MappingEntry {
            source,
            destination: Dva::new(VdevId(1), 0x1000, length),
        };
        let bytes = |entries: &[MappingEntry]| -> Vec<u8> {
            entries.iter().flat_map(MappingEntry::encode).collect()
        };
        let good = [entry(512, 1024), entry(1536, 512), entry(8192, 512)];
        assert_eq!(mapping_entries(&bytes(&good)), Ok(good.to_vec()));
        let overlapping = [entry(512, 1024), entry(1024, 512)];
        assert!(mapping_entries(&bytes(&overlapping)).is_err());
        assert!(MappingEntry::decode(&[0; 24]).is_err(), "no length");
        let mut far = entry(0, 512).encode();
        far[..8].fill(0x7f);
        assert!(MappingEntry::decode(&far).is_err());
        let mut far = entry(0, 512).encode();
        far[16..].fill(0x7f);
        assert!(MappingEntry::decode(&far).is_err(), "leads nowhere");
    }

    #[test]
    fn headers_and_state() {
        let removing = Removing::from_words(&[2, 1, u64::MAX, 3, 4, 5, 6]).expect("valid");
        assert_eq!(
            (removing.state, removing.previous_indirect),
            (RemovalState::Finished, None)
        );
        assert!(Removing::from_words(&[0; 6]).is_err());
        assert!(Removing::from_words(&[4, 0, 0, 0, 0, 0, 0]).is_err());
        let bytes: Vec<u8> = (1..=4_u64).flat_map(u64::to_le_bytes).collect();
        let header = MappingHeader::decode(&bytes).expect("valid");
        assert_eq!((header.entries, header.counts), (3, Some(ObjectId(4))));
        assert_eq!(
            MappingHeader::decode(&bytes[..24]).map(|header| header.counts),
            Ok(None)
        );
        let birth = BirthEntry::decode(&bytes).expect("valid");
        assert_eq!((birth.offset, birth.physical_birth), (1, Txg(2)));
        assert_eq!(birth_count(&bytes), Ok(1));
    }
}
