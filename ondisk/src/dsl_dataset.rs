//! A DSL dataset: the head of a file system or volume, or one of its snapshots.
//!
//! Source: format/3a 1. The bonus buffer (320 bytes) of an object of type 16, or of a ZAP once
//! the dataset has been extended:
//!
//! ```text
//! 0x00 directory       0x08 previous snapshot  0x10 its txg       0x18 next snapshot
//! 0x20 snapshot names  0x28 children           0x30 creation time 0x38 creation txg
//! 0x40 deadlist        0x48 referenced bytes   0x50 compressed    0x58 uncompressed
//! 0x60 unique bytes    0x68 fsid guid          0x70 guid          0x78 flags
//! 0x80 object set's block pointer (128)
//! 0x100 next clones    0x108 properties        0x110 holds        0x118 pad (40)
//! ```

use crate::block_pointer::BLOCK_POINTER_SIZE;
use crate::wire;
use crate::{BlockPointer, DecodeError};
use cenote_base::{Guid, ObjectId, Txg};

/// Bytes of the bonus buffer.
pub const DSL_DATASET_SIZE: usize = 320;

/// A receive is in progress, or a destroy was interrupted.
pub const FLAG_INCONSISTENT: u64 = 1;
/// The clone cannot be promoted.
pub const FLAG_NO_PROMOTE: u64 = 2;
/// `unique_bytes` is exact.
pub const FLAG_UNIQUE_ACCURATE: u64 = 4;
/// The snapshot goes once its last clone or hold does.
pub const FLAG_DEFER_DESTROY: u64 = 8;
/// Names are looked up without regard to case.
pub const FLAG_CASE_INSENSITIVE: u64 = 1 << 16;

/// Of [`DslDataset::fsid_guid`], the bits that count.
pub const FSID_BITS: u32 = 56;

/// Names of the entries of the ZAP that an extended dataset is.
#[expect(missing_docs, reason = "format/3a 1 says what each is")]
pub mod fields {
    pub const BOOKMARKS: &str = "com.delphix:bookmarks";
    pub const IVSET_GUID: &str = "com.datto:ivset_guid";
    pub const REMAP_DEADLIST: &str = "com.delphix:remap_deadlist";
    pub const REDACTED: &str = "com.delphix:redacted_datasets";
    pub const RESUME_TO_GUID: &str = "com.delphix:resume_toguid";
    pub const RESUME_TO_NAME: &str = "com.delphix:resume_toname";
    pub const RESUME_FROM_GUID: &str = "com.delphix:resume_fromguid";
    pub const RESUME_OBJECT: &str = "com.delphix:resume_object";
    pub const RESUME_OFFSET: &str = "com.delphix:resume_offset";
    pub const RESUME_BYTES: &str = "com.delphix:resume_bytes";
    pub const RESUME_LARGE_BLOCKS: &str = "com.delphix:resume_largeblockok";
    pub const RESUME_EMBEDDED: &str = "com.delphix:resume_embedok";
    pub const RESUME_COMPRESSED: &str = "com.delphix:resume_compressok";
    pub const RESUME_RAW: &str = "com.datto:resume_rawok";
    pub const RESUME_REDACTION_SNAPSHOTS: &str = "com.delphix:resume_redact_book_snaps";
}

const STRUCTURE: &str = "DSL dataset";
const BLOCK_POINTER_OFFSET: usize = 0x80;

/// A DSL dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DslDataset {
    /// The directory that the dataset is in.
    pub directory: ObjectId,
    /// The snapshot before; of a clone's oldest, the snapshot it was cloned from.
    pub previous_snapshot: Option<ObjectId>,
    /// That snapshot's creation txg; 0 if there is none.
    pub previous_snapshot_txg: Txg,
    /// Of a snapshot: the one after it, or the head.
    pub next_snapshot: Option<ObjectId>,
    /// Of a head: the ZAP of its snapshots' names.
    pub snapshot_names: Option<ObjectId>,
    /// Of a snapshot: 1 and the number of its clones. Of a head: 0.
    pub children: u64,
    /// Seconds UTC.
    pub creation_time: u64,
    /// The txg of creation.
    pub creation_txg: Txg,
    /// Blocks that the previous snapshot has and this one no longer.
    pub deadlist: ObjectId,
    /// Bytes that the dataset refers to.
    pub referenced_bytes: u64,
    /// Of those, after compression.
    pub compressed_bytes: u64,
    /// Of those, before compression.
    pub uncompressed_bytes: u64,
    /// Bytes that nothing else refers to.
    pub unique_bytes: u64,
    /// A random number; its low [`FSID_BITS`] identify the mounted file system.
    pub fsid_guid: u64,
    /// A random number that never changes: identifies snapshots in streams.
    pub guid: Guid,
    /// `FLAG_*`.
    pub flags: u64,
    /// The object set; a hole in `$ORIGIN`.
    pub block_pointer: BlockPointer,
    /// Of a snapshot: the ZAP of its clones.
    pub next_clones: Option<ObjectId>,
    /// Of a snapshot: the ZAP of its own properties.
    pub properties: Option<ObjectId>,
    /// Of a snapshot: the ZAP of its holds.
    pub holds: Option<ObjectId>,
}

impl DslDataset {
    /// Decodes a bonus buffer.
    pub fn decode(bonus: &[u8]) -> Result<Self, DecodeError> {
        wire::slice(bonus, 0, DSL_DATASET_SIZE, STRUCTURE)?;
        let word = |offset| wire::u64_le(bonus, offset, STRUCTURE);
        let object = |offset| Ok(Some(ObjectId(word(offset)?)).filter(|id| id.0 != 0));
        Ok(Self {
            directory: ObjectId(word(0x00)?),
            previous_snapshot: object(0x08)?,
            previous_snapshot_txg: Txg(word(0x10)?),
            next_snapshot: object(0x18)?,
            snapshot_names: object(0x20)?,
            children: word(0x28)?,
            creation_time: word(0x30)?,
            creation_txg: Txg(word(0x38)?),
            deadlist: ObjectId(word(0x40)?),
            referenced_bytes: word(0x48)?,
            compressed_bytes: word(0x50)?,
            uncompressed_bytes: word(0x58)?,
            unique_bytes: word(0x60)?,
            fsid_guid: word(0x68)?,
            guid: Guid(word(0x70)?),
            flags: word(0x78)?,
            block_pointer: BlockPointer::decode(&bonus[BLOCK_POINTER_OFFSET..])?,
            next_clones: object(0x100)?,
            properties: object(0x108)?,
            holds: object(0x110)?,
        })
    }

    /// The bonus buffer.
    pub fn encode(&self) -> [u8; DSL_DATASET_SIZE] {
        let number = |object: Option<ObjectId>| object.map_or(0, ObjectId::get);
        let before: [u8; BLOCK_POINTER_OFFSET] = wire::words_to_bytes(&[
            self.directory.0,
            number(self.previous_snapshot),
            self.previous_snapshot_txg.0,
            number(self.next_snapshot),
            number(self.snapshot_names),
            self.children,
            self.creation_time,
            self.creation_txg.0,
            self.deadlist.0,
            self.referenced_bytes,
            self.compressed_bytes,
            self.uncompressed_bytes,
            self.unique_bytes,
            self.fsid_guid,
            self.guid.0,
            self.flags,
        ]);
        let after: [u8; 24] = wire::words_to_bytes(&[
            number(self.next_clones),
            number(self.properties),
            number(self.holds),
        ]);
        let after_offset = BLOCK_POINTER_OFFSET + BLOCK_POINTER_SIZE;
        let mut bytes = [0; DSL_DATASET_SIZE];
        bytes[..BLOCK_POINTER_OFFSET].copy_from_slice(&before);
        bytes[BLOCK_POINTER_OFFSET..after_offset].copy_from_slice(&self.block_pointer.encode());
        bytes[after_offset..after_offset + 24].copy_from_slice(&after);
        bytes
    }

    /// Whether this is a snapshot and not a head.
    pub fn is_snapshot(&self) -> bool {
        self.children != 0
    }

    /// Whether the contents may be half received or half destroyed.
    pub fn is_inconsistent(&self) -> bool {
        self.flags & FLAG_INCONSISTENT != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_has_its_place() {
        let mut bytes = [0; DSL_DATASET_SIZE];
        for (i, word) in bytes.chunks_exact_mut(8).take(35).enumerate() {
            word[0] = i as u8 + 1;
        }
        let dataset = DslDataset::decode(&bytes).expect("valid");
        assert!(dataset.is_snapshot() && !dataset.is_inconsistent());
        assert_eq!(dataset.deadlist, ObjectId(9));
        assert_eq!((dataset.guid, dataset.flags), (Guid(15), 16));
        assert_eq!(dataset.block_pointer.words[0], 17);
        assert_eq!(dataset.holds, Some(ObjectId(35)));
        assert_eq!(dataset.encode(), bytes);
        assert!(DslDataset::decode(&bytes[..319]).is_err());
    }
}
