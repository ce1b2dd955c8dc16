//! Why an object or a part of it cannot be read or changed.

use cenote_base::{Bookmark, MemoryExceeded, ObjectId, ObjsetId};
use cenote_io::IoError;
use cenote_ondisk::DecodeError;

/// An object cannot be read or changed; every variant names the place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DmuError {
    /// A block of it cannot be read.
    #[error(transparent)]
    Io(#[from] IoError),
    /// There is no such object.
    #[error("object set {objset} has no object {object}")]
    NoSuchObject {
        /// The object set.
        objset: ObjsetId,
        /// The object looked for.
        object: ObjectId,
    },
    /// A structure in it does not decode.
    #[error("object {object} of object set {objset}: {source}")]
    Decode {
        /// The object set.
        objset: ObjsetId,
        /// The object.
        object: ObjectId,
        /// What is wrong.
        source: DecodeError,
    },
    /// A block contradicts its parent or its dnode.
    #[error("block {bookmark}: {problem}")]
    BadTree {
        /// The block.
        bookmark: Bookmark,
        /// What contradicts what.
        problem: &'static str,
    },
    /// An object is of another type than its use demands.
    #[error("object {object} of object set {objset} is a {found}, where {expected} is needed")]
    WrongType {
        /// The object set.
        objset: ObjsetId,
        /// The object.
        object: ObjectId,
        /// Its type.
        found: String,
        /// The type needed.
        expected: &'static str,
    },
    /// An object set that was opened for reading is not changed.
    #[error("object set {objset} is open for reading only")]
    ReadOnly {
        /// The object set.
        objset: ObjsetId,
    },
    /// A change that the object cannot take.
    #[error("object {object} of object set {objset}: {problem}")]
    BadChange {
        /// The object set.
        objset: ObjsetId,
        /// The object.
        object: ObjectId,
        /// Why not.
        problem: &'static str,
    },
    /// A key is in a ZAP already.
    #[error("object {object} of object set {objset} has that entry already")]
    EntryExists {
        /// The object set.
        objset: ObjsetId,
        /// The ZAP.
        object: ObjectId,
    },
    /// A ZAP has no room for one more entry.
    #[error("object {object} of object set {objset} has no room for that entry: {problem}")]
    ZapFull {
        /// The object set.
        objset: ObjsetId,
        /// The ZAP.
        object: ObjectId,
        /// What it has too many of.
        problem: &'static str,
    },
    /// The pool is suspended.
    #[error("the pool is suspended: {cause}")]
    Suspended {
        /// What happened.
        cause: String,
    },
    /// Changes that are kept in memory only do not fit there.
    #[error("changes that are kept in memory only do not fit there: {0}")]
    Memory(#[from] MemoryExceeded),
    /// Changes that are kept in memory only were to be on disk.
    #[error("object sets of this gate are changed in memory only and are never written")]
    MemoryOnly,
}

impl DmuError {
    /// Whether the pool's data is damaged, as opposed to absent, locked or too big.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Io(error) => error.is_damage(),
            Self::NoSuchObject { .. }
            | Self::ReadOnly { .. }
            | Self::BadChange { .. }
            | Self::EntryExists { .. }
            | Self::ZapFull { .. }
            | Self::Suspended { .. }
            | Self::Memory(_)
            | Self::MemoryOnly => false,
            Self::Decode { .. } | Self::BadTree { .. } | Self::WrongType { .. } => true,
        }
    }

    /// Whether the operation needs a key that is not loaded.
    pub fn is_key_not_loaded(&self) -> bool {
        matches!(self, Self::Io(IoError::KeyNotLoaded { .. }))
    }
}
