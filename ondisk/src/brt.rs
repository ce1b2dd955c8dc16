//! The block reference table: how often cloned blocks are referred to.
//!
//! Source: format/2c 6. One object for each top-level vdev with clones, of type 0xC3. Bonus
//! buffer (56 bytes):
//!
//! ```text
//!  0 entries' ZAP   8 number of counters  16 counters are big-endian  24 number of entries
//! 32 region size   40 bytes used          48 bytes saved
//! ```
//!
//! Data: a u16 for each 16 MiB region of the vdev with the number of entries in it. The ZAP's
//! key is one word, the byte offset of a block's first DVA; the value counts the references
//! beyond the first.

use crate::DecodeError;
use crate::wire;
use crate::zap::Value;
use cenote_base::ObjectId;

/// Bytes of the bonus buffer.
pub const BRT_VDEV_SIZE: usize = 56;
/// Bytes of a region.
pub const REGION_SIZE: u64 = 16 << 20;
/// Prefix of the MOS directory's entries; the vdev's decimal id follows.
pub const DIRECTORY_PREFIX: &str = "com.fudosecurity:brt:vdev:";

const STRUCTURE: &str = "block reference table";

/// The bonus buffer of a vdev's table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrtVdev {
    /// The ZAP of entries.
    pub entries: ObjectId,
    /// Number of counters in the data.
    pub regions: u64,
    /// Whether the counters are big-endian.
    pub big_endian: bool,
    /// Number of entries.
    pub entry_count: u64,
    /// Bytes of a region.
    pub region_size: u64,
    /// Bytes of all blocks with an entry, once each.
    pub used_bytes: u64,
    /// Bytes that cloning saves.
    pub saved_bytes: u64,
}

impl BrtVdev {
    /// Decodes a bonus buffer.
    pub fn decode(bonus: &[u8]) -> Result<Self, DecodeError> {
        let word = |offset| wire::u64_le(bonus, offset, STRUCTURE);
        let region_size = word(32)?;
        let order = word(16)?;
        if region_size == 0 {
            return bad("region size", region_size);
        }
        if order > 1 {
            return bad("byte order of counters", order);
        }
        Ok(Self {
            entries: ObjectId(word(0)?),
            regions: word(8)?,
            big_endian: order != 0,
            entry_count: word(24)?,
            region_size,
            used_bytes: word(40)?,
            saved_bytes: word(48)?,
        })
    }

    /// The bonus buffer.
    pub fn encode(&self) -> [u8; BRT_VDEV_SIZE] {
        wire::words_to_bytes(&[
            self.entries.0,
            self.regions,
            u64::from(self.big_endian),
            self.entry_count,
            self.region_size,
            self.used_bytes,
            self.saved_bytes,
        ])
    }

    /// The counters in a part of the data.
    pub fn counters(&self, bytes: &[u8]) -> impl Iterator<Item = u16> {
        let big_endian = self.big_endian;
        bytes.chunks_exact(2).map(move |bytes| {
            let bytes = [bytes[0], bytes[1]];
            if big_endian {
                u16::from_be_bytes(bytes)
            } else {
                u16::from_le_bytes(bytes)
            }
        })
    }
}

/// The count in a value of the entries' ZAP: references beyond the first.
///
/// One 64-bit integer with the feature `block_cloning_endian`; 8 bytes in the writer's order
/// without. Pools are little-endian but for a few: a count that only makes sense swapped is.
pub fn count(value: &Value) -> Result<u64, DecodeError> {
    if let Some(count) = value.as_u64() {
        return Ok(count);
    }
    let bytes = value.as_bytes().and_then(|bytes| bytes.try_into().ok());
    match bytes {
        Some(bytes) => {
            let count = u64::from_le_bytes(bytes);
            Ok(if count >> 32 != 0 && count << 32 == 0 {
                count.swap_bytes()
            } else {
                count
            })
        }
        None => bad("size of value", value.bytes.len() as u64),
    }
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
    fn header_and_counters() {
        let brt = BrtVdev {
            entries: ObjectId(5),
            regions: 3,
            big_endian: false,
            entry_count: 7,
            region_size: REGION_SIZE,
            used_bytes: 8,
            saved_bytes: 9,
        };
        assert_eq!(BrtVdev::decode(&brt.encode()), Ok(brt));
        let counters: Vec<_> = brt.counters(&[1, 0, 0, 2, 9]).collect();
        assert_eq!(counters, [1, 512]);
        assert!(BrtVdev::decode(&[0; 56]).is_err(), "regions of no size");
        assert!(BrtVdev::decode(&brt.encode()[..55]).is_err());
    }

    #[test]
    fn counts_in_both_forms() {
        assert_eq!(count(&Value::from_u64(3)), Ok(3));
        let mut value = Value {
            integer_size: 1,
            bytes: vec![3, 0, 0, 0, 0, 0, 0, 0],
        };
        assert_eq!(count(&value), Ok(3));
        value.bytes.reverse();
        assert_eq!(count(&value), Ok(3), "by a big-endian host");
        value.bytes.pop();
        assert!(count(&value).is_err());
    }
}
