//! A place in a ZAP as 64 bits (format/2b 5.5): directory offsets and scan bookmarks.
//!
//! ```text
//! 63              bits | bits-1              0      bits = 28, or 48 with HASH64
//! collision differ.    | top bits of the hash
//! ```

/// The next entry to return: the first at or after (hash, cd).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor {
    /// Hash, cut to the ZAP's bits.
    pub hash: u64,
    /// Collision differentiator. One more than any entry's fits, to stand after it.
    pub cd: u64,
}

/// The serialized form of the end.
pub const END: u64 = u64::MAX;

impl Cursor {
    /// Before the first entry.
    pub const START: Self = Self { hash: 0, cd: 0 };

    /// The place right after an entry.
    pub fn after(hash: u64, cd: u32) -> Self {
        Self {
            hash,
            cd: u64::from(cd) + 1,
        }
    }

    /// Whether an entry is at or after this place.
    pub fn admits(self, hash: u64, cd: u32) -> bool {
        (hash, u64::from(cd)) >= (self.hash, self.cd)
    }

    /// The 64-bit form for a ZAP with `hash_bits` bits of hash (28 or 48).
    pub fn serialize(self, hash_bits: u32) -> u64 {
        assert!((1..64).contains(&hash_bits));
        (self.hash >> (64 - hash_bits)) | (self.cd << hash_bits)
    }

    /// The inverse of [`Self::serialize`]; `None` at the end.
    pub fn deserialize(serialized: u64, hash_bits: u32) -> Option<Self> {
        assert!((1..64).contains(&hash_bits));
        (serialized != END).then_some(Self {
            hash: serialized << (64 - hash_bits),
            cd: serialized >> hash_bits,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serializing_is_inverse() {
        let cursor = Cursor::after(0xabcd_ef10 << 32, 5);
        assert_eq!(cursor.serialize(28), 0x0abc_def1 | 6 << 28);
        assert_eq!(Cursor::deserialize(cursor.serialize(28), 28), Some(cursor));
        assert_eq!(Cursor::deserialize(0, 48), Some(Cursor::START));
        assert_eq!(Cursor::deserialize(END, 28), None);
    }

    #[test]
    fn order_is_hash_then_differentiator() {
        let cursor = Cursor::after(7 << 40, 1);
        assert!(!cursor.admits(7 << 40, 1) && cursor.admits(7 << 40, 2));
        assert!(cursor.admits(8 << 40, 0) && !cursor.admits(6 << 40, 9));
    }
}
