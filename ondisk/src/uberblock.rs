//! The uberblock: the root of everything, written last in each transaction group.
//!
//! Source: format/1 1.3. 216 bytes at the start of a slot of the ring; the rest of the slot is
//! zero up to the embedded checksum:
//!
//! ```text
//! 0x00 magic        0x08 version    0x10 txg         0x18 sum of guids
//! 0x20 timestamp    0x28 MOS root block pointer (128)
//! 0xa8 software version   0xb0 multihost magic  0xb8 multihost delay (ns)
//! 0xc0 multihost config   0xc8 checkpoint txg   0xd0 raidz reflow
//!
//! multihost config: 63 fail intervals 48 | 47 sequence 32 | 31 interval (ms) 8 | 7 valid bits 0
//! raidz reflow:     63 scratch state 55 | 54 offset in sectors 0
//! ```
//!
//! Unlike other structures it decodes in both byte orders: the magic tells which. Old software
//! wrote less and left the rest zero.

use crate::wire::{self, bits, with_bits};
use crate::{BlockPointer, DecodeError};
use cenote_base::{SECTOR_SIZE, Txg};

/// Bytes of an uberblock.
pub const UBERBLOCK_SIZE: usize = 216;
/// 64-bit words of an uberblock.
pub const UBERBLOCK_WORDS: usize = UBERBLOCK_SIZE / 8;
/// What an uberblock starts with.
pub const MAGIC: u64 = 0x00ba_b10c;
/// What marks the multihost fields as meant (`MMP_MAGIC`).
pub const MULTIHOST_MAGIC: u64 = 0xa11c_ea11;
/// The version of pools with feature flags.
pub const VERSION_FEATURES: u64 = 5000;
/// The last version before feature flags.
pub const VERSION_LEGACY_MAX: u64 = 28;
/// The txg of a new pool's first uberblock.
pub const TXG_INITIAL: Txg = Txg(4);

const STRUCTURE: &str = "uberblock";
const INTERVAL_VALID: u64 = 1;
const SEQUENCE_VALID: u64 = 2;
const FAIL_INTERVALS_VALID: u64 = 4;

/// Multihost state: the last writer and its promised write interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multihost {
    /// Decaying average of nanoseconds between heartbeats; 0 when multihost is off.
    pub delay_ns: u64,
    /// Milliseconds between heartbeats.
    pub interval_ms: Option<u64>,
    /// Counts heartbeats within a second; 0 in regular uberblocks.
    pub sequence: Option<u16>,
    /// Intervals without success after which the writer suspends; 0 for never.
    pub fail_intervals: Option<u16>,
}

/// What a crash in the first step of a raidz expansion left in the boot region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReflowScratch {
    /// Not in use.
    None,
    /// The first range's data is in the scratch area, not at its place.
    Valid,
    /// Copied back.
    InvalidSynced,
    /// Copied back while importing.
    InvalidSyncedOnImport,
    /// Copied back before the reflow continued.
    InvalidSyncedReflow,
    /// A state that this software does not know.
    Unknown(u16),
}

/// Progress of a raidz expansion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaidzReflow {
    /// Bytes of the vdev's address space that are at their new place.
    pub offset: u64,
    /// State of the scratch area.
    pub scratch: ReflowScratch,
}

/// An uberblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uberblock {
    /// Whether a little-endian host wrote it.
    pub little_endian: bool,
    /// Pool version: 1 to 28 or 5000.
    pub version: u64,
    /// The transaction group that it commits.
    pub txg: Txg,
    /// Sum modulo 2^64 of the guids of all vdevs.
    pub guid_sum: u64,
    /// When it was written, in seconds UTC.
    pub timestamp: u64,
    /// The root block of the meta object set.
    pub root: BlockPointer,
    /// Highest version that the writing software knew.
    pub software_version: u64,
    /// Multihost state; `None` if the writer knew nothing of it.
    pub multihost: Option<Multihost>,
    /// Of the uberblock of a checkpoint, and of the first after rewinding to one: the
    /// checkpoint's txg. Otherwise 0.
    pub checkpoint_txg: Txg,
    /// Raidz expansion, as stored; 0 if none ever ran. See [`Self::raidz_reflow`].
    pub raidz_reflow_word: u64,
}

impl Uberblock {
    /// Decodes the uberblock at the start of a slot, in either byte order.
    pub fn decode(slot: &[u8]) -> Result<Self, DecodeError> {
        let bytes = wire::slice(slot, 0, UBERBLOCK_SIZE, STRUCTURE)?;
        let magic = wire::u64_le(bytes, 0, STRUCTURE)?;
        let little_endian = magic != MAGIC.swap_bytes();
        let mut words = [0; UBERBLOCK_WORDS];
        for (i, word) in words.iter_mut().enumerate() {
            let value = wire::u64_le(bytes, 8 * i, STRUCTURE)?;
            *word = if little_endian {
                value
            } else {
                value.swap_bytes()
            };
        }
        let uberblock = Self::from_words(&words)?;
        Ok(Self {
            little_endian,
            ..uberblock
        })
    }

    /// From 27 words in host order: how the MOS directory keeps a checkpoint's uberblock.
    pub fn from_words(words: &[u64; UBERBLOCK_WORDS]) -> Result<Self, DecodeError> {
        if words[0] != MAGIC {
            return Err(DecodeError::BadMagic {
                structure: STRUCTURE,
                found: words[0],
                expected: MAGIC,
            });
        }
        let mut root = BlockPointer::HOLE;
        root.words.copy_from_slice(&words[5..21]);
        Ok(Self {
            little_endian: true,
            version: words[1],
            txg: Txg(words[2]),
            guid_sum: words[3],
            timestamp: words[4],
            root,
            software_version: words[21],
            multihost: (words[22] == MULTIHOST_MAGIC).then(|| decode_multihost(words)),
            checkpoint_txg: Txg(words[25]),
            raidz_reflow_word: words[26],
        })
    }

    /// The 27 words.
    pub fn to_words(&self) -> [u64; UBERBLOCK_WORDS] {
        let mut words = [0; UBERBLOCK_WORDS];
        words[..5].copy_from_slice(&[
            MAGIC,
            self.version,
            self.txg.0,
            self.guid_sum,
            self.timestamp,
        ]);
        words[5..21].copy_from_slice(&self.root.words);
        words[21] = self.software_version;
        if let Some(multihost) = &self.multihost {
            words[22] = MULTIHOST_MAGIC;
            words[23] = multihost.delay_ns;
            words[24] = encode_multihost_config(multihost);
        }
        words[25] = self.checkpoint_txg.0;
        words[26] = self.raidz_reflow_word;
        words
    }

    /// The 216 little-endian bytes.
    pub fn encode(&self) -> [u8; UBERBLOCK_SIZE] {
        let mut bytes = [0; UBERBLOCK_SIZE];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(self.to_words()) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// What the best uberblock has most of: txg, then time, then heartbeat sequence
    /// (format/1 1.3, "Choosing the best uberblock").
    pub fn rank(&self) -> (Txg, u64, u16) {
        let sequence = self.multihost.and_then(|multihost| multihost.sequence);
        (self.txg, self.timestamp, sequence.unwrap_or(0))
    }

    /// Whether the version is one that this software reads.
    pub fn is_version_supported(&self) -> bool {
        (1..=VERSION_LEGACY_MAX).contains(&self.version) || self.version == VERSION_FEATURES
    }

    /// Progress of a raidz expansion; `None` if there never was one.
    pub fn raidz_reflow(&self) -> Option<RaidzReflow> {
        if self.raidz_reflow_word == 0 {
            return None;
        }
        Some(RaidzReflow {
            offset: bits(self.raidz_reflow_word, 0, 55).saturating_mul(SECTOR_SIZE),
            scratch: match bits(self.raidz_reflow_word, 55, 9) as u16 {
                0 => ReflowScratch::None,
                1 => ReflowScratch::Valid,
                2 => ReflowScratch::InvalidSynced,
                3 => ReflowScratch::InvalidSyncedOnImport,
                4 => ReflowScratch::InvalidSyncedReflow,
                state => ReflowScratch::Unknown(state),
            },
        })
    }
}

fn decode_multihost(words: &[u64; UBERBLOCK_WORDS]) -> Multihost {
    let config = words[24];
    let valid = bits(config, 0, 8);
    let if_valid = |bit, value| (valid & bit != 0).then_some(value);
    Multihost {
        delay_ns: words[23],
        interval_ms: if_valid(INTERVAL_VALID, bits(config, 8, 24)),
        sequence: if_valid(SEQUENCE_VALID, bits(config, 32, 16)).map(|value| value as u16),
        fail_intervals: if_valid(FAIL_INTERVALS_VALID, bits(config, 48, 16))
            .map(|value| value as u16),
    }
}

fn encode_multihost_config(multihost: &Multihost) -> u64 {
    let mut config = 0;
    if let Some(interval) = multihost.interval_ms {
        config = with_bits(config | INTERVAL_VALID, 8, 24, interval.min(0xff_ffff));
    }
    if let Some(sequence) = multihost.sequence {
        config = with_bits(config | SEQUENCE_VALID, 32, 16, u64::from(sequence));
    }
    if let Some(intervals) = multihost.fail_intervals {
        config = with_bits(config | FAIL_INTERVALS_VALID, 48, 16, u64::from(intervals));
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Uberblock {
        Uberblock {
            little_endian: true,
            version: 5000,
            txg: Txg(1234),
            guid_sum: u64::MAX,
            timestamp: 1_700_000_000,
            root: BlockPointer {
                words: std::array::from_fn(|i| i as u64 + 1),
            },
            software_version: 5000,
            multihost: Some(Multihost {
                delay_ns: 5,
                interval_ms: Some(1000),
                sequence: Some(7),
                fail_intervals: Some(10),
            }),
            checkpoint_txg: Txg(0),
            raidz_reflow_word: 1 << 55 | 8,
        }
    }

    #[test]
    fn fields_survive() {
        let uberblock = example();
        assert_eq!(
            Uberblock::decode(&uberblock.encode()),
            Ok(uberblock.clone())
        );
        assert_eq!(uberblock.to_words()[24], 0x000a_0007_0003_e807);
        let reflow = RaidzReflow {
            offset: 4096,
            scratch: ReflowScratch::Valid,
        };
        assert_eq!(uberblock.raidz_reflow(), Some(reflow));
    }

    #[test]
    fn the_other_byte_order_decodes_to_the_same() {
        let mut bytes = example().encode();
        bytes.chunks_exact_mut(8).for_each(<[u8]>::reverse);
        let swapped = Uberblock::decode(&bytes).expect("the magic is the other way round");
        let expected = Uberblock {
            little_endian: false,
            ..example()
        };
        assert_eq!(swapped, expected);
    }

    #[test]
    fn later_and_newer_win() {
        let old = example();
        let mut new = example();
        new.multihost = None;
        assert!(old.rank() > new.rank(), "the sequence decides last");
        new.timestamp += 1;
        assert!(new.rank() > old.rank());
        assert!(Uberblock::decode(&[0; UBERBLOCK_SIZE]).is_err());
        assert!(Uberblock::decode(&old.encode()[..215]).is_err());
    }
}
