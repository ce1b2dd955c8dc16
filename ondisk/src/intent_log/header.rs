//! The intent log header in an object set block (format/2e 1).
//!
//! ```text
//!   0 claim txg   8 highest replayed sequence   16 first block's pointer (128)
//! 144 highest claimed block sequence  152 flags  160 highest claimed record sequence  168 pad
//! ```
//!
//! All zero is valid: there is no log. In a snapshot the header means nothing.

use crate::objset::INTENT_LOG_HEADER_SIZE;
use crate::wire;
use crate::{BlockPointer, DecodeError};
use cenote_base::Txg;

/// Records must be replayed before the object set is changed.
pub const FLAG_REPLAY_NEEDED: u64 = 1;
/// `claim_record_sequence` is set.
pub const FLAG_CLAIM_RECORD_SEQUENCE_VALID: u64 = 2;

const STRUCTURE: &str = "intent log header";

/// An intent log header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntentLogHeader {
    /// The txg in which the chain was claimed; 0 if it was not.
    pub claim_txg: Txg,
    /// The highest record sequence that was replayed.
    pub replay_sequence: u64,
    /// The first block of the chain; a hole if there is no log.
    pub log: BlockPointer,
    /// The highest block sequence that was claimed.
    pub claim_block_sequence: u64,
    /// `FLAG_*`.
    pub flags: u64,
    /// The highest record sequence that was claimed.
    pub claim_record_sequence: u64,
}

impl IntentLogHeader {
    /// Decodes the 192 bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        wire::slice(bytes, 0, INTENT_LOG_HEADER_SIZE, STRUCTURE)?;
        let word = |offset| wire::u64_le(bytes, offset, STRUCTURE);
        Ok(Self {
            claim_txg: Txg(word(0)?),
            replay_sequence: word(8)?,
            log: BlockPointer::decode(&bytes[16..])?,
            claim_block_sequence: word(144)?,
            flags: word(152)?,
            claim_record_sequence: word(160)?,
        })
    }

    /// The 192 bytes.
    pub fn encode(&self) -> [u8; INTENT_LOG_HEADER_SIZE] {
        let mut bytes = [0; INTENT_LOG_HEADER_SIZE];
        bytes[..16].copy_from_slice(&wire::words_to_bytes::<16>(&[
            self.claim_txg.0,
            self.replay_sequence,
        ]));
        bytes[16..144].copy_from_slice(&self.log.encode());
        bytes[144..168].copy_from_slice(&wire::words_to_bytes::<24>(&[
            self.claim_block_sequence,
            self.flags,
            self.claim_record_sequence,
        ]));
        bytes
    }

    /// The last record that a claim got to: of a log that is claimed, later ones do not count.
    pub fn last_claimed_record(&self) -> u64 {
        match self.flags & FLAG_CLAIM_RECORD_SEQUENCE_VALID {
            0 => u64::MAX,
            _ => self.claim_record_sequence,
        }
    }

    /// Whether there are records that must be replayed.
    pub fn needs_replay(&self) -> bool {
        !self.log.is_hole() && self.flags & FLAG_REPLAY_NEEDED != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_survive() {
        let mut header = IntentLogHeader {
            claim_txg: Txg(1),
            replay_sequence: 2,
            log: BlockPointer {
                words: std::array::from_fn(|i| i as u64 + 10),
            },
            claim_block_sequence: 3,
            flags: FLAG_REPLAY_NEEDED,
            claim_record_sequence: 5,
        };
        assert_eq!(
            IntentLogHeader::decode(&header.encode()),
            Ok(header.clone())
        );
        assert!(header.needs_replay());
        header.log = BlockPointer::HOLE;
        assert!(!header.needs_replay());
        assert!(IntentLogHeader::decode(&[0; 191]).is_err());
    }
}
