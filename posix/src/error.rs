//! Why a file system operation fails, with the place, and what errno that is.
//!
//! Places are relative to the dataset: an object number, and the path where the caller named one.
//! Mapping to errno happens only at the edge, by [`PosixError::errno`].

use cenote_base::{Bookmark, MemoryExceeded, ObjectId, ObjsetId};
use cenote_dataset::{DatasetError, SpaceRefusal};
use cenote_dmu::DmuError;
use cenote_intent_log::IntentLogError;
use cenote_ondisk::DecodeError;
use std::borrow::Cow;

/// A file system operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PosixError {
    /// An object cannot be read.
    #[error(transparent)]
    Dmu(#[from] DmuError),
    /// The intent log cannot be read.
    #[error(transparent)]
    IntentLog(#[from] IntentLogError),
    /// The object set holds something else.
    #[error("object set {objset} is not a file system")]
    NotFileSystem {
        /// The object set.
        objset: ObjsetId,
    },
    /// The file system is of a version that this software does not know.
    #[error("object set {objset} has file system version {version}; 1 to 5 are known")]
    UnknownVersion {
        /// The object set.
        objset: ObjsetId,
        /// Its version.
        version: u64,
    },
    /// The dataset is encrypted and its key is not loaded.
    #[error("object set {objset} is encrypted and its key is not loaded")]
    KeyNotLoaded {
        /// The object set.
        objset: ObjsetId,
    },
    /// A structure of the file system does not decode.
    #[error("object {object}: {source}")]
    Malformed {
        /// The object that holds it.
        object: ObjectId,
        /// What is wrong.
        source: DecodeError,
    },
    /// An object contradicts itself or another.
    #[error("object {object}: {problem}")]
    Inconsistent {
        /// The object.
        object: ObjectId,
        /// What contradicts what.
        problem: &'static str,
    },
    /// There is no such name.
    #[error("object {directory} has no entry '{}'", show(name))]
    NotFound {
        /// The directory.
        directory: ObjectId,
        /// The name.
        name: Vec<u8>,
    },
    /// There is no such object, or it is no file.
    #[error("object {object} is not a file, directory or link")]
    NoSuchZnode {
        /// The object.
        object: ObjectId,
    },
    /// A directory is needed.
    #[error("object {object} is not a directory")]
    NotDirectory {
        /// The object.
        object: ObjectId,
    },
    /// A directory is of no use here.
    #[error("object {object} is a directory")]
    IsDirectory {
        /// The object.
        object: ObjectId,
    },
    /// The object is of a kind that the operation does not know.
    #[error("object {object} is not {expected}")]
    WrongKind {
        /// The object.
        object: ObjectId,
        /// What it should be.
        expected: &'static str,
    },
    /// A name is longer than the format allows.
    #[error("a name of {length} bytes; at most {limit} are allowed")]
    NameTooLong {
        /// Its length in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A path leads through too many symbolic links.
    #[error("'{}' leads through more than {limit} symbolic links", show(path))]
    TooManyLinks {
        /// The path of the request.
        path: Vec<u8>,
        /// How many are followed.
        limit: usize,
    },
    /// A path leads through a symbolic link, which was not wanted.
    #[error("'{}' is a symbolic link", show(path))]
    SymlinkRefused {
        /// The path up to the link.
        path: Vec<u8>,
    },
    /// A symbolic link leads to an absolute path, which may be outside of the dataset.
    #[error(
        "'{}' is a symbolic link to '{}', which may lead out of the dataset",
        show(path),
        show(target)
    )]
    LeavesDataset {
        /// The path up to the link.
        path: Vec<u8>,
        /// The link's target.
        target: Vec<u8>,
    },
    /// There is no such extended attribute.
    #[error("object {object} has no extended attribute '{}'", show(name))]
    NoAttribute {
        /// The object.
        object: ObjectId,
        /// The attribute's name.
        name: Vec<u8>,
    },
    /// A seek starts at or leads beyond the end of the file.
    #[error("object {object} has nothing to find at or behind offset {offset}")]
    SeekBeyondEnd {
        /// The object.
        object: ObjectId,
        /// Where the search began, in bytes.
        offset: u64,
    },
    /// A directory can be reached by two ways: the tree has a loop or a double link.
    #[error("directory {object} is both '{}' and '{}'", show(first), show(second))]
    DirectoryTwice {
        /// The directory.
        object: ObjectId,
        /// Where it was met first.
        first: Vec<u8>,
        /// Where it was met again.
        second: Vec<u8>,
    },
    /// An object's parents do not lead to the root.
    #[error("object {object}: its parent directories do not lead to the root")]
    NoPath {
        /// The object.
        object: ObjectId,
    },
    /// More memory would be needed than is allowed.
    #[error(transparent)]
    Memory(#[from] MemoryExceeded),
    /// The outcome of the intent log's operations does not fit in memory.
    #[error(
        "what is in its intent log does not fit in memory: {0}; import the pool for writing, \
         which replays the log on disk, or read the last synced state without the log"
    )]
    ReplayMemory(MemoryExceeded),
    /// The file system is open for reading only.
    #[error("the file system is open for reading only")]
    ReadOnly,
    /// It was closed, and accepts no more changes.
    #[error("the file system is closed")]
    Closed,
    /// The pool is full.
    #[error("there is no space left")]
    NoSpace,
    /// A quota of the dataset, or of an owner, is used up.
    #[error("a quota is used up")]
    QuotaExceeded,
    /// A name is taken.
    #[error("object {directory} has '{}' already", show(name))]
    Exists {
        /// The directory, or the file with the attribute.
        directory: ObjectId,
        /// The name.
        name: Vec<u8>,
    },
    /// A directory that should go has entries.
    #[error("directory {object} is not empty")]
    NotEmpty {
        /// The directory.
        object: ObjectId,
    },
    /// A flag of the object forbids the change.
    #[error("object {object} does not allow that")]
    Forbidden {
        /// The object.
        object: ObjectId,
    },
    /// No entry can have that name.
    #[error("'{}' is not a name", show(name))]
    InvalidName {
        /// The name.
        name: Vec<u8>,
    },
    /// Names must be UTF-8 here.
    #[error("'{}' is not UTF-8", show(name))]
    NotUtf8 {
        /// The name.
        name: Vec<u8>,
    },
    /// A value does not mean anything.
    #[error("the value has no meaning here")]
    InvalidValue,
    /// A file has too many names already.
    #[error("object {object} has as many names as it can have")]
    TooManyNames {
        /// The object.
        object: ObjectId,
    },
    /// A directory would come to lie in itself.
    #[error("directory {object} cannot be moved into itself")]
    IntoItself {
        /// The directory.
        object: ObjectId,
    },
    /// A file cannot come into a directory of another project.
    #[error("the directory belongs to another project")]
    OtherProject,
    /// A file would end too far from its start.
    #[error("object {object} cannot become so large")]
    FileTooLarge {
        /// The file.
        object: ObjectId,
    },
    /// Attributes do not fit where they are stored.
    #[error("attributes are too large")]
    AttributesTooLarge,
    /// The file system's version or properties do not have it.
    #[error("the file system does not have that")]
    NotSupported,
    /// An operation in the intent log cannot be repeated.
    #[error("intent log record {sequence}: {problem}")]
    Replay {
        /// The record's sequence number.
        sequence: u64,
        /// What does not fit.
        problem: &'static str,
    },
}

/// Bytes of a name or path as text for a message. Names on a disk may have control characters,
/// which a terminal obeys.
fn show(bytes: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(bytes);
    if !text.contains(char::is_control) {
        return text;
    }
    let escape = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(escape).collect::<String>().into()
}

/// The values of Linux, which are the protocol's on every platform that we mount on.
mod errno {
    pub(super) const EPERM: i32 = 1;
    pub(super) const ENOENT: i32 = 2;
    pub(super) const E2BIG: i32 = 7;
    pub(super) const EEXIST: i32 = 17;
    pub(super) const EFBIG: i32 = 27;
    pub(super) const ENOSPC: i32 = 28;
    pub(super) const EROFS: i32 = 30;
    pub(super) const EMLINK: i32 = 31;
    pub(super) const ENOTEMPTY: i32 = 39;
    pub(super) const EILSEQ: i32 = 84;
    pub(super) const EDQUOT: i32 = 122;
    pub(super) const EIO: i32 = 5;
    pub(super) const ENXIO: i32 = 6;
    pub(super) const ENOMEM: i32 = 12;
    pub(super) const EACCES: i32 = 13;
    pub(super) const ENOTDIR: i32 = 20;
    pub(super) const EISDIR: i32 = 21;
    pub(super) const EINVAL: i32 = 22;
    pub(super) const ENAMETOOLONG: i32 = 36;
    pub(super) const ELOOP: i32 = 40;
    pub(super) const ENODATA: i32 = 61;
    pub(super) const EXDEV: i32 = 18;
    pub(super) const ENOTSUP: i32 = 95;
    pub(super) const ESTALE: i32 = 116;
}

impl From<SpaceRefusal> for PosixError {
    fn from(refusal: SpaceRefusal) -> Self {
        match refusal {
            SpaceRefusal::NoSpace => Self::NoSpace,
            SpaceRefusal::Quota => Self::QuotaExceeded,
        }
    }
}

impl From<DatasetError> for PosixError {
    fn from(error: DatasetError) -> Self {
        match error {
            DatasetError::Dmu(error) => Self::Dmu(error),
            DatasetError::Space(refusal) => refusal.into(),
            DatasetError::Closed => Self::Closed,
        }
    }
}

impl PosixError {
    /// The errno that a system call that met this error returns.
    ///
    /// Damage of any kind is `EIO`, as in OpenZFS (which says `ECKSUM` inside and `EIO` outside).
    pub fn errno(&self) -> i32 {
        match self {
            Self::Dmu(DmuError::NoSuchObject { .. }) | Self::NoSuchZnode { .. } => errno::ESTALE,
            Self::Dmu(error) if error.is_key_not_loaded() => errno::EACCES,
            Self::Dmu(DmuError::ReadOnly { .. }) | Self::ReadOnly => errno::EROFS,
            Self::Dmu(DmuError::ZapFull { .. }) => errno::ENOSPC,
            Self::Dmu(DmuError::EntryExists { .. }) | Self::Exists { .. } => errno::EEXIST,
            Self::NoSpace => errno::ENOSPC,
            Self::QuotaExceeded => errno::EDQUOT,
            Self::NotEmpty { .. } => errno::ENOTEMPTY,
            Self::Forbidden { .. } => errno::EPERM,
            Self::InvalidName { .. } | Self::InvalidValue => errno::EINVAL,
            Self::NotUtf8 { .. } => errno::EILSEQ,
            Self::TooManyNames { .. } => errno::EMLINK,
            Self::IntoItself { .. } => errno::EINVAL,
            Self::OtherProject => errno::EXDEV,
            Self::FileTooLarge { .. } => errno::EFBIG,
            Self::AttributesTooLarge => errno::E2BIG,
            Self::NotSupported => errno::ENOTSUP,
            Self::Closed => errno::EIO,
            Self::Dmu(_) | Self::IntentLog(_) | Self::Malformed { .. } => errno::EIO,
            Self::Inconsistent { .. } | Self::NoPath { .. } | Self::Replay { .. } => errno::EIO,
            Self::NotFileSystem { .. } => errno::EINVAL,
            Self::UnknownVersion { .. } => errno::ENOTSUP,
            Self::KeyNotLoaded { .. } => errno::EACCES,
            Self::NotFound { .. } => errno::ENOENT,
            Self::NotDirectory { .. } => errno::ENOTDIR,
            Self::IsDirectory { .. } => errno::EISDIR,
            Self::WrongKind { .. } => errno::EINVAL,
            Self::NameTooLong { .. } => errno::ENAMETOOLONG,
            Self::TooManyLinks { .. } | Self::SymlinkRefused { .. } => errno::ELOOP,
            Self::DirectoryTwice { .. } => errno::ELOOP,
            Self::LeavesDataset { .. } => errno::EXDEV,
            Self::NoAttribute { .. } => errno::ENODATA,
            Self::SeekBeyondEnd { .. } => errno::ENXIO,
            Self::Memory(_) | Self::ReplayMemory(_) => errno::ENOMEM,
        }
    }

    /// The block or object that the error is about, if it says.
    pub fn place(&self) -> Option<Bookmark> {
        match self {
            Self::Dmu(error) => cenote_dataset::place_of(error),
            _ => None,
        }
    }

    /// Whether the pool's data is damaged, as opposed to absent, locked or misused.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Dmu(error) => error.is_damage(),
            Self::Closed => false,
            _ => self.errno() == errno::EIO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_names_and_damage_differ() {
        let absent = PosixError::NotFound {
            directory: ObjectId(34),
            name: b"a\xff".to_vec(),
        };
        assert_eq!(absent.errno(), 2);
        assert!(!absent.is_damage());
        assert_eq!(absent.to_string(), "object 34 has no entry 'a\u{fffd}'");
        let source = DecodeError::Missing {
            structure: "master node",
            key: "ROOT",
        };
        let damaged = PosixError::Malformed {
            object: ObjectId(1),
            source,
        };
        assert_eq!(damaged.errno(), 5);
        assert!(damaged.is_damage());
    }
}
