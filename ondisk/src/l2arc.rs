//! The header of a cache device (persistent L2ARC).
//!
//! Source: format/1c 9. At 4 MiB of the device, max(512, 2^ashift) bytes with an embedded
//! checksum whose verifier is the offset:
//!
//! ```text
//! 0x00 magic   0x08 version   0x10 pool guid   0x18 vdev guid   0x20 entries per log block
//! 0x28 evicted up to   0x30 flags   0x38 start   0x40 end   0x48 two log block pointers (64)
//! 0xc8 bytes of log blocks   0xd0 log blocks   0xd8 trim time   0xe0 trim state
//! ```
//!
//! The contents are only a cache: software may ignore them without loss.

use crate::DecodeError;
use crate::wire;
use cenote_base::Guid;

/// What the header starts with: `ZFSCACHE`.
pub const MAGIC: u64 = 0x5a46_5343_4143_4845;
/// The version that is understood.
pub const VERSION: u64 = 1;
/// Where the header is on the device.
pub const HEADER_OFFSET: u64 = crate::label::DATA_OFFSET;
/// The first time around: nothing has been evicted.
pub const FLAG_FIRST_SWEEP: u64 = 1;

const STRUCTURE: &str = "cache device header";

/// Where a log block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct L2LogPointer {
    /// Byte offset on the device.
    pub offset: u64,
    /// Bytes of the buffers that the block describes.
    pub payload_size: u64,
    /// Byte offset of the first of them.
    pub payload_start: u64,
    /// Sizes, compression and checksum function.
    pub prop: u64,
    /// The block's checksum.
    pub checksum: [u64; 4],
}

/// The header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct L2Header {
    /// The pool that the device caches for.
    pub pool_guid: Guid,
    /// The device.
    pub vdev_guid: Guid,
    /// Entries in a log block.
    pub log_entries: u64,
    /// Byte offset up to which buffers have been evicted.
    pub evict: u64,
    /// `FLAG_*`.
    pub flags: u64,
    /// Where buffers start, in bytes.
    pub start: u64,
    /// Where they end.
    pub end: u64,
    /// The newest log block, and the one before.
    pub log_pointers: [L2LogPointer; 2],
    /// Bytes of all log blocks.
    pub log_size: u64,
    /// Number of log blocks.
    pub log_blocks: u64,
    /// When a trim was started, in seconds UTC.
    pub trim_time: u64,
    /// How far it has come, as for other devices.
    pub trim_state: u64,
}

impl L2Header {
    /// Decodes the header. The checksum is the caller's to verify.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let word = |offset| wire::u64_le(bytes, offset, STRUCTURE);
        let magic = word(0)?;
        if magic != MAGIC {
            return Err(DecodeError::BadMagic {
                structure: STRUCTURE,
                found: magic,
                expected: MAGIC,
            });
        }
        let version = word(8)?;
        if version != VERSION {
            return Err(DecodeError::BadValue {
                structure: STRUCTURE,
                field: "version",
                value: version,
            });
        }
        let pointer = |offset| {
            Ok(L2LogPointer {
                offset: word(offset)?,
                payload_size: word(offset + 8)?,
                payload_start: word(offset + 16)?,
                prop: word(offset + 24)?,
                checksum: [
                    word(offset + 32)?,
                    word(offset + 40)?,
                    word(offset + 48)?,
                    word(offset + 56)?,
                ],
            })
        };
        Ok(Self {
            pool_guid: Guid(word(0x10)?),
            vdev_guid: Guid(word(0x18)?),
            log_entries: word(0x20)?,
            evict: word(0x28)?,
            flags: word(0x30)?,
            start: word(0x38)?,
            end: word(0x40)?,
            log_pointers: [pointer(0x48)?, pointer(0x88)?],
            log_size: word(0xc8)?,
            log_blocks: word(0xd0)?,
            trim_time: word(0xd8)?,
            trim_state: word(0xe0)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_has_its_place() {
        let mut bytes: Vec<u8> = (0..64_u64).flat_map(u64::to_le_bytes).collect();
        bytes[..8].copy_from_slice(b"EHCACSFZ");
        let header = L2Header::decode(&bytes).expect("valid");
        assert_eq!((header.vdev_guid, header.end), (Guid(3), 8));
        assert_eq!(header.log_pointers[1].offset, 17);
        assert_eq!(header.log_pointers[1].checksum, [21, 22, 23, 24]);
        assert_eq!((header.log_size, header.trim_state), (25, 28));
        assert!(L2Header::decode(&bytes[..100]).is_err());
        bytes[8] = 2;
        assert!(L2Header::decode(&bytes).is_err());
    }
}
