//! Log records: one operation each (format/2e 3).
//!
//! ```text
//! 0 type (bit 63: names without regard to case)   8 length   16 txg   24 sequence   32 body
//! ```
//!
//! Records follow each other without gaps and never cross a block. A body is fixed fields and
//! then, by type, access control entries, ids, extended attributes and NUL-terminated names.
//! Decoding borrows from the block; nothing is copied but numbers.

pub use super::record_body::{Records, swap};

use crate::BlockPointer;
use crate::wire::bits;
use cenote_base::{ObjectId, Txg};

/// Bytes of a record's header.
pub const HEADER_SIZE: usize = 32;
/// Set in the type: names are looked up without regard to case.
pub const TYPE_CASE_INSENSITIVE: u64 = 1 << 63;
/// Bytes of an [`ExtendedAttributes`].
pub const EXTENDED_ATTRIBUTES_SIZE: usize = 72;

pub(super) const STRUCTURE: &str = "log record";
/// Record types, numbered as on disk.
#[expect(missing_docs, reason = "named as in the format")]
pub mod record_type {
    pub const CREATE: u64 = 1;
    pub const MKDIR: u64 = 2;
    pub const MKXATTR: u64 = 3;
    pub const SYMLINK: u64 = 4;
    pub const REMOVE: u64 = 5;
    pub const RMDIR: u64 = 6;
    pub const LINK: u64 = 7;
    pub const RENAME: u64 = 8;
    pub const WRITE: u64 = 9;
    pub const TRUNCATE: u64 = 10;
    pub const SETATTR: u64 = 11;
    pub const ACL_V0: u64 = 12;
    pub const ACL: u64 = 13;
    pub const CREATE_ACL: u64 = 14;
    pub const CREATE_ATTR: u64 = 15;
    pub const CREATE_ACL_ATTR: u64 = 16;
    pub const MKDIR_ACL: u64 = 17;
    pub const MKDIR_ATTR: u64 = 18;
    pub const MKDIR_ACL_ATTR: u64 = 19;
    pub const WRITE2: u64 = 20;
    pub const SETSAXATTR: u64 = 21;
    pub const RENAME_EXCHANGE: u64 = 22;
    pub const RENAME_WHITEOUT: u64 = 23;
    pub const CLONE_RANGE: u64 = 24;
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The type's number, without the case flag.
    pub record_type: u64,
    /// Names are looked up without regard to case.
    pub case_insensitive: bool,
    /// The txg that the operation belongs to.
    pub txg: Txg,
    /// Increases over the whole chain.
    pub sequence: u64,
    /// The operation.
    pub body: RecordBody<'a>,
}

/// An object to be created: its number, and the 512-byte slots of its dnode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewObject {
    /// The object.
    pub object: ObjectId,
    /// Slots of its dnode.
    pub dnode_slots: u8,
}

impl NewObject {
    /// `| slots - 1 : 8 | 0 : 8 | object : 48 |`
    pub(super) fn decode(word: u64) -> Self {
        Self {
            object: ObjectId(bits(word, 0, 48)),
            // 32 slots are the most there are; a wilder number fails when the object is made.
            dnode_slots: (bits(word, 56, 8) as u8).saturating_add(1),
        }
    }
}

/// What a create, mkdir, mkxattr or symlink record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create<'a> {
    /// The directory; for mkxattr the file.
    pub directory: ObjectId,
    /// The new object.
    pub new: NewObject,
    /// Type and permissions.
    pub mode: u64,
    /// User id.
    pub uid: u64,
    /// Group id.
    pub gid: u64,
    /// The txg of creation.
    pub generation: u64,
    /// Creation time: seconds and nanoseconds.
    pub crtime: (u64, u64),
    /// Device number.
    pub device: u64,
    /// Extended attributes, in the types with `ATTR`.
    pub attributes: Option<ExtendedAttributes>,
    /// The access control list, in the types with `ACL`.
    pub acl: Option<AclBody<'a>>,
    /// The NUL-terminated domains of ids that are not plain.
    pub domains: &'a [u8],
    /// The name.
    pub name: &'a [u8],
    /// Of a symlink: the target.
    pub target: Option<&'a [u8]>,
}

/// An access control list within a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AclBody<'a> {
    /// Number of entries.
    pub count: u64,
    /// Flags of the list.
    pub flags: u64,
    /// The entries: see [`crate::acl::decode`].
    pub entries: &'a [u8],
    /// Ids as the file system stores them, 8 bytes each.
    pub ids: &'a [u8],
}

/// Extended attributes (`lr_attr_t`): flags that chattr and DOS know, and a creation time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedAttributes {
    /// Which attributes are set by the record.
    pub requested: u32,
    /// The values, in the same bits.
    pub values: u64,
    /// Creation time: seconds and nanoseconds.
    pub crtime: (u64, u64),
    /// An antivirus stamp; its first 8 bytes are the project id if that is requested.
    pub scanstamp: [u8; 32],
}

/// The operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordBody<'a> {
    /// Types 1 to 4 and 14 to 19: a new file, directory, attribute directory or symlink.
    Create(Create<'a>),
    /// Types 5 and 6: a name is removed.
    Remove {
        /// The directory.
        directory: ObjectId,
        /// The name.
        name: &'a [u8],
    },
    /// Type 7: another name for a file.
    Link {
        /// The directory.
        directory: ObjectId,
        /// The file.
        object: ObjectId,
        /// The name.
        name: &'a [u8],
    },
    /// Types 8, 22 and 23: a name moves, is exchanged, or leaves a whiteout behind.
    Rename {
        /// The directory it leaves.
        source_directory: ObjectId,
        /// The directory it enters.
        target_directory: ObjectId,
        /// The old name.
        source: &'a [u8],
        /// The new name.
        target: &'a [u8],
        /// What is left at the old name, of type 23.
        whiteout: Option<Whiteout>,
    },
    /// Types 9 and 20: a write. Of type 20 only the file's size counts.
    Write {
        /// The file.
        object: ObjectId,
        /// Bytes from its start.
        offset: u64,
        /// Bytes written.
        length: u64,
        /// The data.
        data: WriteData<'a>,
    },
    /// Type 10: a range is freed.
    Truncate {
        /// The file.
        object: ObjectId,
        /// Bytes from its start.
        offset: u64,
        /// Bytes freed; 0 for all to the end.
        length: u64,
    },
    /// Type 11: attributes change.
    SetAttributes(SetAttributes<'a>),
    /// Types 12 and 13: a new access control list.
    Acl {
        /// The file.
        object: ObjectId,
        /// The list.
        acl: AclBody<'a>,
        /// Whether entries are of version 0.
        is_old: bool,
        /// The NUL-terminated domains of ids that are not plain.
        domains: &'a [u8],
    },
    /// Type 21: an extended attribute in system attributes is set, or removed if empty.
    SetXattr {
        /// The file.
        object: ObjectId,
        /// The attribute's name.
        name: &'a [u8],
        /// Its value; `None` removes it.
        value: Option<&'a [u8]>,
    },
    /// Type 24: blocks are cloned into a file.
    CloneRange {
        /// The file.
        object: ObjectId,
        /// Bytes from its start.
        offset: u64,
        /// Bytes cloned.
        length: u64,
        /// Bytes of a block.
        block_size: u64,
        /// The blocks' pointers, 128 bytes each: see [`crate::bpobj::entries`].
        pointers: &'a [u8],
    },
}

/// What a rename leaves at the old name: a character device 0:0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whiteout {
    /// The new object.
    pub new: NewObject,
    /// Type and permissions.
    pub mode: u64,
    /// User id.
    pub uid: u64,
    /// Group id.
    pub gid: u64,
    /// The txg of creation.
    pub generation: u64,
    /// Creation time: seconds and nanoseconds.
    pub crtime: (u64, u64),
    /// Device number.
    pub device: u64,
}

/// Where a write's data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteData<'a> {
    /// In the record.
    Immediate(&'a [u8]),
    /// In a block of the pool that holds the whole file block.
    Indirect(BlockPointer),
    /// Nowhere: type 20 only tells the size.
    SizeOnly,
}

/// What a setattr record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetAttributes<'a> {
    /// The file.
    pub object: ObjectId,
    /// What to set, in the bits of the platform that wrote the record: see
    /// [`Self::attribute_mask`].
    pub mask: u64,
    /// Type and permissions.
    pub mode: u64,
    /// User id.
    pub uid: u64,
    /// Group id.
    pub gid: u64,
    /// Bytes.
    pub size: u64,
    /// Access time: seconds and nanoseconds.
    pub atime: (u64, u64),
    /// Modification time.
    pub mtime: (u64, u64),
    /// Extended attributes.
    pub attributes: Option<ExtendedAttributes>,
    /// The NUL-terminated domains of ids that are not plain.
    pub domains: &'a [u8],
}

/// What a setattr record sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the field of the same name")]
pub struct AttributeMask {
    pub mode: bool,
    pub uid: bool,
    pub gid: bool,
    pub size: bool,
    pub atime: bool,
    pub mtime: bool,
    pub ctime: bool,
}

impl SetAttributes<'_> {
    /// What is set, if Linux wrote the record, else as FreeBSD and illumos number the bits.
    pub fn attribute_mask(&self, written_by_linux: bool) -> AttributeMask {
        let table: [u64; 7] = match written_by_linux {
            true => [1, 2, 4, 8, 16, 32, 64],
            false => [2, 4, 8, 0x80, 0x100, 0x200, 0x400],
        };
        let [mode, uid, gid, size, atime, mtime, ctime] = table.map(|bit| self.mask & bit != 0);
        AttributeMask {
            mode,
            uid,
            gid,
            size,
            atime,
            mtime,
            ctime,
        }
    }
}
