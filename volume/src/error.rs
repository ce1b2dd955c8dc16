//! Why a volume cannot be opened or read.

use cenote_base::{MemoryExceeded, ObjsetId};
use cenote_dataset::{DatasetError, SpaceRefusal};
use cenote_dmu::DmuError;
use cenote_intent_log::IntentLogError;

/// A volume operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeError {
    /// An object of it cannot be read.
    #[error(transparent)]
    Dmu(#[from] DmuError),
    /// Its intent log cannot be read.
    #[error(transparent)]
    IntentLog(#[from] IntentLogError),
    /// The dataset takes no change.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The volume was opened for reading only.
    #[error("object set {objset} is open for reading only")]
    ReadOnly {
        /// The object set.
        objset: ObjsetId,
    },
    /// The object set holds something else.
    #[error("object set {objset} is not a volume")]
    NotVolume {
        /// The object set.
        objset: ObjsetId,
    },
    /// The volume is encrypted and its key is not loaded.
    #[error("object set {objset} is encrypted and its key is not loaded")]
    KeyNotLoaded {
        /// The object set.
        objset: ObjsetId,
    },
    /// The volume's size is missing or makes no sense.
    #[error("object set {objset}: a volume of size {size:?} with blocks of {block_size} bytes")]
    BadSize {
        /// The object set.
        objset: ObjsetId,
        /// The size found, in bytes.
        size: Option<u64>,
        /// Bytes of a block.
        block_size: u64,
    },
    /// A read or write reaches beyond the end.
    #[error("{length} bytes at {offset} reach beyond the volume's {size}")]
    BeyondEnd {
        /// Where it begins, in bytes.
        offset: u64,
        /// Its length in bytes.
        length: u64,
        /// The volume's size in bytes.
        size: u64,
    },
    /// A block that the log points to is shorter than the write.
    #[error("object set {objset}: intent log record {sequence} does not fit the volume")]
    BadRecord {
        /// The object set.
        objset: ObjsetId,
        /// The record's number.
        sequence: u64,
    },
    /// The outcome of the intent log's operations does not fit in memory.
    #[error(
        "what is in its intent log does not fit in memory: {0}; import the pool for writing, \
         which replays the log on disk, or read the last synced state without the log"
    )]
    ReplayMemory(MemoryExceeded),
}

impl VolumeError {
    /// The errno that a block device returns for this error.
    pub fn errno(&self) -> i32 {
        const EIO: i32 = 5;
        const ENOMEM: i32 = 12;
        const EACCES: i32 = 13;
        const EINVAL: i32 = 22;
        const ENOSPC: i32 = 28;
        const EROFS: i32 = 30;
        const EDQUOT: i32 = 122;
        match self {
            Self::KeyNotLoaded { .. } => EACCES,
            Self::Dmu(error) | Self::Dataset(DatasetError::Dmu(error))
                if error.is_key_not_loaded() =>
            {
                EACCES
            }
            Self::Dmu(DmuError::ReadOnly { .. }) | Self::ReadOnly { .. } => EROFS,
            Self::Dataset(DatasetError::Space(SpaceRefusal::NoSpace)) => ENOSPC,
            Self::Dataset(DatasetError::Space(SpaceRefusal::Quota)) => EDQUOT,
            Self::NotVolume { .. } | Self::BeyondEnd { .. } => EINVAL,
            Self::ReplayMemory(_) => ENOMEM,
            Self::Dmu(_) | Self::Dataset(_) | Self::IntentLog(_) => EIO,
            Self::BadSize { .. } | Self::BadRecord { .. } => EIO,
        }
    }
}
