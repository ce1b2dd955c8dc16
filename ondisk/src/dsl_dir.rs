//! A DSL directory: a node of the tree of datasets, with its space accounting.
//!
//! Source: format/3a 1. The bonus buffer (256 bytes) of an object of type 12, or of a ZAP once
//! the directory has been extended:
//!
//! ```text
//! 0x00 creation time   0x08 head dataset     0x10 parent         0x18 origin snapshot
//! 0x20 child map       0x28 used bytes       0x30 compressed     0x38 uncompressed
//! 0x40 quota           0x48 reservation      0x50 properties     0x58 delegations
//! 0x60 flags           0x68 used by: head, snapshots, children, child reservations,
//!                           refreservation (5 words)
//! 0x90 clones          0x98 pad (104)
//! ```

use crate::DecodeError;
use crate::wire;
use cenote_base::ObjectId;

/// Bytes of the bonus buffer.
pub const DSL_DIR_SIZE: usize = 256;
/// The breakdown of used space is kept.
pub const FLAG_USED_BREAKDOWN: u64 = 1;

/// Names of the entries of the ZAP that an extended directory is.
#[expect(missing_docs, reason = "format/3a 1 says what each is")]
pub mod fields {
    pub const CRYPTO_KEY: &str = "com.datto:crypto_key_obj";
    pub const FILESYSTEM_COUNT: &str = "com.joyent:filesystem_count";
    pub const SNAPSHOT_COUNT: &str = "com.joyent:snapshot_count";
    pub const LIVELIST: &str = "com.delphix:livelist";
    pub const SNAPSHOTS_CHANGED: &str = "com.ixsystems:snapshots_changed";
}

const STRUCTURE: &str = "DSL directory";

/// What a directory's used space consists of, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsedBreakdown {
    /// The dataset itself.
    pub head: u64,
    /// What only snapshots hold.
    pub snapshots: u64,
    /// The children's used space.
    pub children: u64,
    /// What the children have reserved and not used.
    pub child_reservations: u64,
    /// What the dataset has reserved and not used.
    pub refreservation: u64,
}

/// A DSL directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DslDir {
    /// Seconds UTC.
    pub creation_time: u64,
    /// The live dataset; `None` for the hidden `$MOS`, `$FREE` and `$LEAK`.
    pub head_dataset: Option<ObjectId>,
    /// The directory above; `None` for the root.
    pub parent: Option<ObjectId>,
    /// The snapshot that the head was cloned from.
    pub origin: Option<ObjectId>,
    /// The ZAP of child directories.
    pub child_map: ObjectId,
    /// Bytes used by this directory and all below, with reservations.
    pub used_bytes: u64,
    /// Of those, after compression.
    pub compressed_bytes: u64,
    /// Of those, before compression.
    pub uncompressed_bytes: u64,
    /// The most that may be used, in bytes; 0 for no limit.
    pub quota: u64,
    /// Bytes reserved; 0 for none.
    pub reservation: u64,
    /// The ZAP of properties.
    pub properties: ObjectId,
    /// The ZAP of delegated permissions.
    pub delegations: Option<ObjectId>,
    /// `FLAG_*`.
    pub flags: u64,
    /// What the used space consists of.
    pub breakdown: UsedBreakdown,
    /// The ZAP of datasets cloned from snapshots of this directory.
    pub clones: Option<ObjectId>,
}

impl DslDir {
    /// Decodes a bonus buffer.
    pub fn decode(bonus: &[u8]) -> Result<Self, DecodeError> {
        wire::slice(bonus, 0, DSL_DIR_SIZE, STRUCTURE)?;
        let word = |offset| wire::u64_le(bonus, offset, STRUCTURE);
        let object = |offset| Ok(Some(ObjectId(word(offset)?)).filter(|id| id.0 != 0));
        Ok(Self {
            creation_time: word(0x00)?,
            head_dataset: object(0x08)?,
            parent: object(0x10)?,
            origin: object(0x18)?,
            child_map: ObjectId(word(0x20)?),
            used_bytes: word(0x28)?,
            compressed_bytes: word(0x30)?,
            uncompressed_bytes: word(0x38)?,
            quota: word(0x40)?,
            reservation: word(0x48)?,
            properties: ObjectId(word(0x50)?),
            delegations: object(0x58)?,
            flags: word(0x60)?,
            breakdown: UsedBreakdown {
                head: word(0x68)?,
                snapshots: word(0x70)?,
                children: word(0x78)?,
                child_reservations: word(0x80)?,
                refreservation: word(0x88)?,
            },
            clones: object(0x90)?,
        })
    }

    /// The bonus buffer.
    pub fn encode(&self) -> [u8; DSL_DIR_SIZE] {
        let number = |object: Option<ObjectId>| object.map_or(0, ObjectId::get);
        let words = [
            self.creation_time,
            number(self.head_dataset),
            number(self.parent),
            number(self.origin),
            self.child_map.0,
            self.used_bytes,
            self.compressed_bytes,
            self.uncompressed_bytes,
            self.quota,
            self.reservation,
            self.properties.0,
            number(self.delegations),
            self.flags,
            self.breakdown.head,
            self.breakdown.snapshots,
            self.breakdown.children,
            self.breakdown.child_reservations,
            self.breakdown.refreservation,
            number(self.clones),
        ];
        wire::words_to_bytes(&words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_has_its_place() {
        let mut bytes = [0; DSL_DIR_SIZE];
        for (i, word) in bytes.chunks_exact_mut(8).take(19).enumerate() {
            word[0] = i as u8 + 1;
        }
        let dir = DslDir::decode(&bytes).expect("valid");
        assert_eq!(dir.head_dataset, Some(ObjectId(2)));
        assert_eq!((dir.child_map, dir.properties), (ObjectId(5), ObjectId(11)));
        assert_eq!((dir.quota, dir.flags), (9, 13));
        assert_eq!(dir.breakdown.refreservation, 18);
        assert_eq!(dir.clones, Some(ObjectId(19)));
        assert_eq!(dir.encode(), bytes);
        assert!(DslDir::decode(&bytes[..255]).is_err());
    }
}
