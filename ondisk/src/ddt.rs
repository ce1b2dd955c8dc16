//! The dedup table: keys, entries, the log of the fast form, statistics.
//!
//! Source: format/2c 3 to 5. Tables are ZAPs whose key is five words:
//!
//! ```text
//! 0-3 checksum   4 | 0 | X | compression : 7 | psize-1 : 16 | lsize-1 : 16 |
//! ```
//!
//! The value is bytes: a version byte (bit 7: little-endian, bits 6-0: compression, 14 for zle)
//! and the stored form of the entry, compressed if that is shorter:
//!
//! ```text
//! flat (72):          DVAs (6 words)  references  physical birth  class start (seconds)
//! traditional (256):  4 of {DVAs (6 words)  references  physical birth}, by number of copies;
//!                     the first is obsolete
//! ```
//!
//! A dedup log (block size 128 KiB) holds records that never cross a block:
//!
//! ```text
//! header | class : 8 | storage type : 8 | 0 : 24 | length : 16 | record type : 8 |
//! key (40)  flat or traditional entry
//! ```

use crate::wire::{self, bits};
use crate::{BlockPointer, DecodeError, Dva};
use cenote_base::{SECTOR_SIZE, Txg};

/// Words of a key.
pub const KEY_WORDS: usize = 5;
/// Bytes of a flat entry.
pub const FLAT_SIZE: usize = 72;
/// Bytes of a traditional entry.
pub const TRADITIONAL_SIZE: usize = 256;
/// Bytes of a log object's bonus buffer.
pub const LOG_HEADER_SIZE: usize = 64;
/// Entries of a fast dedup table have the flat form.
pub const DIRECTORY_FLAG_FLAT: u64 = 1;
/// A fast dedup table has logs.
pub const DIRECTORY_FLAG_LOG: u64 = 2;
/// The version of a fast dedup table's directory.
pub const DIRECTORY_VERSION: u64 = 1;
/// Buckets of a histogram: by log2 of the references.
pub const HISTOGRAM_BUCKETS: usize = 64;

const STRUCTURE: &str = "dedup table";
const COMPRESSION_ZLE: u8 = 14;
const COMPRESSION_OFF: u8 = 2;
const ORDER_LITTLE: u8 = 0x80;
const TRADITIONAL_SLOT_SIZE: usize = 64;
const HISTOGRAM_WORDS: usize = 8;

/// Which table an entry is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DdtClass {
    /// Obsolete: blocks with extra copies.
    Ditto,
    /// More than one reference.
    Duplicate,
    /// One reference.
    Unique,
}

impl DdtClass {
    /// Every class, by number.
    pub const ALL: [Self; 3] = [Self::Ditto, Self::Duplicate, Self::Unique];

    /// The name in `DDT-<checksum>-zap-<class>`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ditto => "ditto",
            Self::Duplicate => "duplicate",
            Self::Unique => "unique",
        }
    }
}

/// What identifies a block's contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DdtKey {
    /// The checksum words of its pointer.
    pub checksum: [u64; 4],
    /// Sizes, compression and whether it is encrypted.
    pub prop: u64,
}

impl DdtKey {
    /// From the words of a ZAP key.
    pub fn from_words(words: &[u64]) -> Result<Self, DecodeError> {
        match *words {
            [a, b, c, d, prop] => Ok(Self {
                checksum: [a, b, c, d],
                prop,
            }),
            _ => bad("number of key words", words.len() as u64),
        }
    }

    /// The words of the ZAP key.
    pub fn to_words(self) -> [u64; KEY_WORDS] {
        let [a, b, c, d] = self.checksum;
        [a, b, c, d, self.prop]
    }

    /// The key of a block.
    pub fn of(pointer: &BlockPointer) -> Self {
        let sizes = bits(pointer.words[6], 0, 32);
        let compression = u64::from(pointer.compression_number());
        Self {
            checksum: pointer.checksum(),
            prop: u64::from(pointer.uses_crypt()) << 39 | compression << 32 | sizes,
        }
    }

    /// Bytes of the block when decompressed.
    pub fn logical_size(self) -> u64 {
        (bits(self.prop, 0, 16) + 1) * SECTOR_SIZE
    }

    /// Bytes of the block as stored.
    pub fn physical_size(self) -> u64 {
        (bits(self.prop, 16, 16) + 1) * SECTOR_SIZE
    }

    /// Whether the block is encrypted: then the third DVA is not one.
    pub fn uses_crypt(self) -> bool {
        bits(self.prop, 39, 1) != 0
    }

    fn decode(bytes: &[u8], offset: usize) -> Result<Self, DecodeError> {
        let mut words = [0; KEY_WORDS];
        for (i, word) in words.iter_mut().enumerate() {
            *word = wire::u64_le(bytes, offset + 8 * i, STRUCTURE)?;
        }
        Self::from_words(&words)
    }
}

/// A stored block that references share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DdtPhys {
    /// Where it is; unused ones are not valid.
    pub dvas: [Dva; 3],
    /// How many block pointers refer to it.
    pub references: u64,
    /// When it was written; 0 for an unused slot.
    pub physical_birth: Txg,
}

/// What a key maps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DdtEntry {
    /// One stored block, with as many copies as anyone asked for.
    Flat {
        /// The block.
        phys: DdtPhys,
        /// When the entry last changed, in seconds UTC.
        class_start: u64,
    },
    /// One stored block per number of copies; index 0 is obsolete.
    Traditional([DdtPhys; 4]),
}

impl DdtEntry {
    /// Decodes 72 (flat) or 256 (traditional) little-endian bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        match bytes.len() {
            FLAT_SIZE => Ok(Self::Flat {
                phys: decode_phys(bytes, 0)?,
                class_start: wire::u64_le(bytes, 64, STRUCTURE)?,
            }),
            TRADITIONAL_SIZE => {
                let mut slots = [DdtPhys::default(); 4];
                for (i, slot) in slots.iter_mut().enumerate() {
                    *slot = decode_phys(bytes, i * TRADITIONAL_SLOT_SIZE)?;
                }
                Ok(Self::Traditional(slots))
            }
            length => bad("size of entry", length as u64),
        }
    }

    /// The 72 or 256 little-endian bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(TRADITIONAL_SIZE);
        let mut push = |words: &[u64]| words.iter().for_each(|w| bytes.extend(w.to_le_bytes()));
        match self {
            Self::Flat { phys, class_start } => {
                push(&phys.words());
                push(&[*class_start]);
            }
            Self::Traditional(slots) => slots.iter().for_each(|slot| push(&slot.words())),
        }
        bytes
    }

    /// All references, over all slots that count.
    pub fn references(&self) -> u64 {
        match self {
            Self::Flat { phys, .. } => phys.references,
            Self::Traditional(slots) => slots[1..]
                .iter()
                .fold(0, |sum, slot| sum.saturating_add(slot.references)),
        }
    }

    /// The slots that hold a block.
    pub fn blocks(&self) -> impl Iterator<Item = &DdtPhys> {
        let slots = match self {
            Self::Flat { phys, .. } => std::slice::from_ref(phys),
            Self::Traditional(slots) => slots,
        };
        slots.iter().filter(|slot| slot.physical_birth.0 != 0)
    }

    /// Whether the pointer is one of this entry's references: same first DVA and birth.
    pub fn matches(&self, pointer: &BlockPointer) -> bool {
        self.blocks().any(|slot| {
            slot.dvas[0] == pointer.dva(0) && slot.physical_birth == pointer.physical_birth()
        })
    }
}

impl DdtPhys {
    fn words(&self) -> [u64; 8] {
        let [a, b, c] = self.dvas.map(|dva| [dva.word0, dva.word1]);
        let (references, birth) = (self.references, self.physical_birth.0);
        [a[0], a[1], b[0], b[1], c[0], c[1], references, birth]
    }
}

fn decode_phys(bytes: &[u8], offset: usize) -> Result<DdtPhys, DecodeError> {
    let word = |index: usize| wire::u64_le(bytes, offset + 8 * index, STRUCTURE);
    let dva = |index: usize| {
        Ok(Dva {
            word0: word(2 * index)?,
            word1: word(2 * index + 1)?,
        })
    };
    Ok(DdtPhys {
        dvas: [dva(0)?, dva(1)?, dva(2)?],
        references: word(6)?,
        physical_birth: Txg(word(7)?),
    })
}

/// The stored form of an entry as a ZAP value holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DdtValue<'a> {
    /// Whether the rest is zle-compressed (64 as the threshold).
    pub compressed: bool,
    /// Whether words are big-endian: after decompression, and only then, they are swapped.
    pub big_endian: bool,
    /// The entry, or its compressed form.
    pub bytes: &'a [u8],
}

impl<'a> DdtValue<'a> {
    /// Takes the version byte off a ZAP value.
    pub fn decode(value: &'a [u8]) -> Result<Self, DecodeError> {
        let Some((version, bytes)) = value.split_first() else {
            return bad("size of value", 0);
        };
        let compressed = match version & !ORDER_LITTLE {
            COMPRESSION_ZLE => true,
            COMPRESSION_OFF => false,
            _ => return bad("version of value", u64::from(*version)),
        };
        Ok(Self {
            compressed,
            big_endian: version & ORDER_LITTLE == 0,
            bytes,
        })
    }

    /// The ZAP value of an entry, given the function that compresses with zle to fewer bytes than
    /// there are, if it can.
    pub fn encode(entry: &DdtEntry, zle: impl FnOnce(&[u8]) -> Option<Vec<u8>>) -> Vec<u8> {
        let bytes = entry.encode();
        let (version, bytes) = match zle(&bytes) {
            Some(compressed) => (COMPRESSION_ZLE, compressed),
            None => (COMPRESSION_OFF, bytes),
        };
        let mut value = vec![version | ORDER_LITTLE];
        value.extend(bytes);
        value
    }

    /// The entry, given the function that decompresses zle to exactly so many bytes. `flat`
    /// tells the table's form.
    pub fn entry(
        &self,
        flat: bool,
        zle: impl FnOnce(&[u8], usize) -> Option<Vec<u8>>,
    ) -> Result<DdtEntry, DecodeError> {
        let size = if flat { FLAT_SIZE } else { TRADITIONAL_SIZE };
        if !self.compressed {
            return DdtEntry::decode(wire::slice(self.bytes, 0, size, STRUCTURE)?);
        }
        let Some(mut bytes) = zle(self.bytes, size).filter(|bytes| bytes.len() == size) else {
            return Err(DecodeError::Inconsistent {
                structure: STRUCTURE,
                problem: "an entry does not decompress",
            });
        };
        if self.big_endian {
            crate::byteswap::swap_array::<8>(&mut bytes);
        }
        DdtEntry::decode(&bytes)
    }
}

/// The bonus buffer of a dedup log object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DdtLogHeader {
    /// The log is being emptied into the tables.
    pub flushing: bool,
    /// How far that has come: keys up to this one are done.
    pub checkpoint: Option<DdtKey>,
    /// Bytes of log: whole blocks.
    pub length: u64,
    /// The txg in which the log became the active one.
    pub first_txg: Txg,
}

impl DdtLogHeader {
    /// The bonus buffer.
    pub fn encode(&self) -> [u8; LOG_HEADER_SIZE] {
        let flags = u64::from(self.flushing) | u64::from(self.checkpoint.is_some()) << 1;
        let mut words = vec![1 | flags << 8, self.length, self.first_txg.0];
        words.extend(self.checkpoint.unwrap_or_default().to_words());
        let mut bytes = [0; LOG_HEADER_SIZE];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Decodes a bonus buffer.
    pub fn decode(bonus: &[u8]) -> Result<Self, DecodeError> {
        let head = wire::u64_le(bonus, 0, STRUCTURE)?;
        let (version, flags) = (bits(head, 0, 8), bits(head, 8, 8));
        if version != 1 {
            return bad("version of log", version);
        }
        if flags & !3 != 0 {
            return bad("flags of log", flags);
        }
        let checkpoint = DdtKey::decode(bonus, 24)?;
        Ok(Self {
            flushing: flags & 1 != 0,
            checkpoint: (flags & 2 != 0).then_some(checkpoint),
            length: wire::u64_le(bonus, 8, STRUCTURE)?,
            first_txg: Txg(wire::u64_le(bonus, 16, STRUCTURE)?),
        })
    }
}

/// A record of a dedup log: the entry as of then supersedes what the tables and older records
/// say of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DdtLogRecord {
    /// The table that holds the key now; `None` if none does.
    pub class: Option<DdtClass>,
    /// The key.
    pub key: DdtKey,
    /// The entry; without references it is to be removed.
    pub entry: DdtEntry,
}

/// Decodes the records of one block of a dedup log.
pub fn log_records(block: &[u8]) -> Result<Vec<DdtLogRecord>, DecodeError> {
    const KEY_OFFSET: usize = 8;
    const ENTRY_OFFSET: usize = KEY_OFFSET + KEY_WORDS * 8;
    let mut records = Vec::new();
    let mut offset = 0;
    while offset < block.len() {
        let head = wire::u64_le(block, offset, STRUCTURE)?;
        match bits(head, 0, 8) {
            0 => break,
            1 => {}
            record_type => return bad("type of log record", record_type),
        }
        let length = bits(head, 8, 16) as usize;
        if length <= ENTRY_OFFSET {
            return bad("length of log record", length as u64);
        }
        let record = wire::slice(block, offset, length, STRUCTURE)?;
        let class = usize::try_from(bits(head, 56, 8)).unwrap_or(usize::MAX);
        records.push(DdtLogRecord {
            class: DdtClass::ALL.get(class).copied(),
            key: DdtKey::decode(record, KEY_OFFSET)?,
            entry: DdtEntry::decode(&record[ENTRY_OFFSET..])?,
        });
        offset += length;
    }
    Ok(records)
}

/// Blocks and bytes of entries, once each and times their references.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DdtStatistics {
    /// Stored blocks.
    pub blocks: u64,
    /// Their bytes decompressed.
    pub logical: u64,
    /// Their bytes as compressed.
    pub physical: u64,
    /// Their bytes as allocated, deflated.
    pub allocated: u64,
    /// References to them.
    pub referenced_blocks: u64,
    /// The same sums over references.
    pub referenced_logical: u64,
    /// The same sums over references.
    pub referenced_physical: u64,
    /// The same sums over references.
    pub referenced_allocated: u64,
}

impl DdtStatistics {
    /// Adds another's figures.
    pub fn add(&mut self, other: &Self) {
        let mut words = self.to_words();
        for (word, other) in words.iter_mut().zip(other.to_words()) {
            *word = word.saturating_add(other);
        }
        *self = Self::from_words(words);
    }

    /// Takes another's figures away.
    pub fn subtract(&mut self, other: &Self) {
        let mut words = self.to_words();
        for (word, other) in words.iter_mut().zip(other.to_words()) {
            *word = word.saturating_sub(other);
        }
        *self = Self::from_words(words);
    }

    fn from_words(words: [u64; HISTOGRAM_WORDS]) -> Self {
        let [blocks, logical, physical, allocated, rest @ ..] = words;
        let [
            referenced_blocks,
            referenced_logical,
            referenced_physical,
            referenced_allocated,
        ] = rest;
        Self {
            blocks,
            logical,
            physical,
            allocated,
            referenced_blocks,
            referenced_logical,
            referenced_physical,
            referenced_allocated,
        }
    }

    fn to_words(self) -> [u64; HISTOGRAM_WORDS] {
        [
            self.blocks,
            self.logical,
            self.physical,
            self.allocated,
            self.referenced_blocks,
            self.referenced_logical,
            self.referenced_physical,
            self.referenced_allocated,
        ]
    }
}

/// A table's statistics by log2 of the references: a value of the `DDT-statistics` ZAP.
pub fn histogram_from_words(words: &[u64]) -> Result<Vec<DdtStatistics>, DecodeError> {
    if words.len() != HISTOGRAM_BUCKETS * HISTOGRAM_WORDS {
        return bad("number of histogram words", words.len() as u64);
    }
    let buckets = words.chunks_exact(HISTOGRAM_WORDS).map(|bucket| {
        let words = bucket.try_into().expect("chunks of 8 words");
        DdtStatistics::from_words(words)
    });
    Ok(buckets.collect())
}

/// The words of a table's statistics.
pub fn histogram_to_words(buckets: &[DdtStatistics]) -> Vec<u64> {
    let words = buckets.iter().flat_map(|bucket| bucket.to_words());
    words.collect()
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

    fn bytes(words: impl IntoIterator<Item = u64>) -> Vec<u8> {
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    #[test]
    fn flat_and_traditional_entries() {
        let flat = DdtEntry::decode(&bytes(1..=9)).expect("72 bytes");
        assert_eq!(flat.references(), 7);
        let DdtEntry::Flat { phys, class_start } = flat else {
            panic!("flat");
        };
        assert_eq!((phys.physical_birth, class_start), (Txg(8), 9));
        assert_eq!(phys.dvas[2], Dva { word0: 5, word1: 6 });
        let mut words = vec![0; 32];
        words[8..16].copy_from_slice(&[1, 2, 0, 0, 0, 0, 3, 77]);
        words[6] = 9;
        let traditional = DdtEntry::decode(&bytes(words)).expect("256 bytes");
        assert_eq!(
            (traditional.references(), traditional.blocks().count()),
            (3, 1)
        );
        let mut pointer = BlockPointer::HOLE;
        pointer.words[..2].copy_from_slice(&[1, 2]);
        pointer.words[10] = 77;
        assert!(traditional.matches(&pointer) && !flat.matches(&pointer));
        assert!(DdtEntry::decode(&[0; 73]).is_err());
        for entry in [flat, traditional] {
            assert_eq!(DdtEntry::decode(&entry.encode()), Ok(entry));
            let value = DdtValue::encode(&entry, |_| None);
            let decoded = DdtValue::decode(&value).expect("just made");
            let is_flat = matches!(entry, DdtEntry::Flat { .. });
            assert_eq!(decoded.entry(is_flat, |_, _| None), Ok(entry));
        }
    }

    #[test]
    fn values_raw_and_compressed() {
        let mut value = vec![0x82];
        value.extend(bytes(1..=9));
        let decoded = DdtValue::decode(&value).expect("raw");
        let entry = decoded.entry(true, |_, _| None).expect("valid");
        assert_eq!(entry.references(), 7);
        assert!(decoded.entry(false, |_, _| None).is_err(), "too short");
        let compressed = DdtValue::decode(&[14, 0]).expect("zle");
        assert!(compressed.compressed && compressed.big_endian);
        let entry = compressed.entry(true, |_, size| Some(vec![0; size]));
        assert_eq!(entry.map(|entry| entry.references()), Ok(0));
        assert!(compressed.entry(true, |_, _| Some(vec![0; 3])).is_err());
        assert!(DdtValue::decode(&[]).is_err() && DdtValue::decode(&[0x83]).is_err());
    }

    #[test]
    fn log_records_stop_at_the_end_mark() {
        let record = |class: u64, seed: u64| {
            let mut words = vec![class << 56 | 120 << 8 | 1];
            words.extend(seed..seed + 14);
            words
        };
        let mut block = bytes([record(2, 10), record(3, 40)].concat());
        block.resize(512, 0);
        let records = log_records(&block).expect("valid");
        assert_eq!(records[0].class, Some(DdtClass::Unique));
        assert_eq!(
            (records[0].key.prop, records[0].entry.references()),
            (14, 21)
        );
        assert_eq!((records.len(), records[1].class), (2, None));
        block[1] = 10;
        assert!(log_records(&block).is_err());
    }

    #[test]
    fn headers_and_histograms() {
        let mut words = vec![1 | 3 << 8, 131_072, 9];
        words.extend(20..25);
        let header = DdtLogHeader::decode(&bytes(words.clone())).expect("valid");
        assert!(header.flushing && header.length == 131_072);
        assert_eq!(header.encode()[..], bytes(words.clone()));
        assert_eq!(header.checkpoint.map(|key| key.prop), Some(24));
        words[0] = 2;
        assert!(DdtLogHeader::decode(&bytes(words)).is_err());
        let histogram = histogram_from_words(&(0..512).collect::<Vec<_>>()).expect("512");
        assert!(histogram_to_words(&histogram).into_iter().eq(0..512));
        assert_eq!(histogram[1].blocks, 8);
        assert_eq!(histogram[1].referenced_allocated, 15);
        let mut sum = histogram[0];
        sum.add(&histogram[1]);
        assert_eq!((sum.blocks, sum.logical), (8, 10));
        sum.subtract(&histogram[1]);
        assert_eq!(sum, histogram[0]);
        assert!(histogram_from_words(&[0; 511]).is_err());
    }
}
