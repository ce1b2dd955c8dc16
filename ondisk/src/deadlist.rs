//! Deadlists: blocks that the previous snapshot refers to and its successor does not.
//!
//! Source: format/3a 4. An object of type 50: a ZAP from a txg, in lower-case hex, to a
//! [`bpobj`](crate::bpobj) with the blocks born after that txg, up to the next key. The bonus
//! buffer (320 bytes) has the totals:
//!
//! ```text
//! 0 used bytes   8 compressed   16 uncompressed   24 pad (296)
//! ```
//!
//! Livelists have the same form. Before version 26 a deadlist is a single bpobj.

use crate::DecodeError;
use crate::wire;

/// Bytes of the bonus buffer.
pub const DEADLIST_SIZE: usize = 320;

const STRUCTURE: &str = "deadlist";

/// The totals of a deadlist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeadlistHeader {
    /// Bytes that the blocks use.
    pub used_bytes: u64,
    /// After compression.
    pub compressed_bytes: u64,
    /// Before compression.
    pub uncompressed_bytes: u64,
}

impl DeadlistHeader {
    /// Decodes a bonus buffer.
    pub fn decode(bonus: &[u8]) -> Result<Self, DecodeError> {
        Ok(Self {
            used_bytes: wire::u64_le(bonus, 0, STRUCTURE)?,
            compressed_bytes: wire::u64_le(bonus, 8, STRUCTURE)?,
            uncompressed_bytes: wire::u64_le(bonus, 16, STRUCTURE)?,
        })
    }

    /// The bonus buffer.
    pub fn encode(&self) -> [u8; DEADLIST_SIZE] {
        wire::words_to_bytes(&[
            self.used_bytes,
            self.compressed_bytes,
            self.uncompressed_bytes,
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_survive() {
        let header = DeadlistHeader {
            used_bytes: 1,
            compressed_bytes: 2,
            uncompressed_bytes: u64::MAX,
        };
        assert_eq!(DeadlistHeader::decode(&header.encode()), Ok(header));
        assert!(DeadlistHeader::decode(&[0; 23]).is_err());
    }
}
