//! Why a pool cannot be imported or a part of it not be read.

use crate::import::outsider::Outsider;
use cenote_base::{Guid, Txg, VdevId};
use cenote_device::DeviceError;
use cenote_dmu::DmuError;
use cenote_dsl::DslError;
use cenote_io::IoError;
use cenote_ondisk::DecodeError;
use cenote_vdev::VdevError;
use std::path::PathBuf;

/// A vdev that was not found, with what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingVdev {
    /// Its guid; 0 if no label and no configuration contains it.
    pub guid: Guid,
    /// The top-level vdev that it belongs to, as `zpool status` names it.
    pub top: String,
    /// The number of that vdev.
    pub top_id: VdevId,
    /// Where it was last.
    pub last_path: Option<PathBuf>,
    /// Whether it is that top-level vdev by itself.
    pub is_top: bool,
    /// Whether it is a log device: then the pool can do without.
    pub is_log: bool,
}

impl std::fmt::Display for MissingVdev {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.top)?;
        match (&self.last_path, self.guid.0) {
            (Some(path), guid) => write!(f, " device {guid}, last seen as {}", path.display()),
            (None, 0) => write!(f, ", of which no device was found"),
            (None, guid) => write!(f, " device {guid}"),
        }
    }
}

/// A pool cannot be imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// No device carries an uberblock with a right checksum (within the limit asked for).
    #[error(
        "no device has a readable uberblock{}; check that all devices are given",
        limit.map(|txg| format!(" of txg {txg} or older")).unwrap_or_default()
    )]
    NoUberblock {
        /// The newest txg allowed.
        limit: Option<Txg>,
    },
    /// The pool's version is not one that exists.
    #[error("pool version {version} is not supported")]
    UnsupportedVersion {
        /// The version.
        version: u64,
    },
    /// Features are active that must be known to read the pool.
    #[error("the pool uses features that this software does not know: {}", features.join(", "))]
    UnsupportedFeatures {
        /// Their guids.
        features: Vec<String>,
    },
    /// Devices are missing without which nothing can be read.
    #[error("devices are missing: {}", list(missing))]
    MissingDevices {
        /// What is missing.
        missing: Vec<MissingVdev>,
    },
    /// Devices are not what the pool left them as; without them it cannot be opened.
    #[error("{}", outsiders.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Parted {
        /// The devices.
        outsiders: Vec<Outsider>,
    },
    /// Only log devices are missing.
    #[error(
        "log devices are missing (import with -m to lose their records): {}",
        list(missing)
    )]
    MissingLogs {
        /// What is missing.
        missing: Vec<MissingVdev>,
    },
    /// A dataset's log cannot be found, and the pool was not exported.
    #[error(
        "the object set of '{dataset}' cannot be read, and with it its intent log: {reason}; \
         import with -m to lose what only that log holds, or with '-o readonly=on' to copy files"
    )]
    UnreadableLog {
        /// The dataset.
        dataset: String,
        /// Why.
        reason: String,
    },
    /// The pool was in use on another system and not exported.
    #[error("the pool was in use by {hostname} (hostid {hostid:x}) until {timestamp}")]
    InUse {
        /// The other system's name.
        hostname: String,
        /// Its hostid.
        hostid: u64,
        /// Seconds since the epoch of the last uberblock.
        timestamp: u64,
    },
    /// The property `multihost` is on, and this system has no hostid.
    #[error("the property multihost is on, and this system has no hostid")]
    HostIdRequired,
    /// Another system writes heartbeats to the pool.
    #[error("the pool is active on another system ({hostname})")]
    ActiveElsewhere {
        /// The other system's name.
        hostname: String,
    },
    /// There is no checkpoint to rewind to.
    #[error("the pool has no checkpoint")]
    NoCheckpoint,
    /// Recent metadata of this txg cannot be read; an older one may do.
    #[error("metadata written up to txg {txg} is damaged")]
    DamagedTxg {
        /// The txg.
        txg: Txg,
    },
    /// The newest group is on devices in part.
    #[error(
        "of txg {txg} only a part is there: a device is the copy of one that was in use, or lost \
         writes that it had confirmed"
    )]
    PartOfGroup {
        /// The group.
        txg: Txg,
    },
    /// Rewinding would cross a step of a raidz expansion.
    #[error("txg {txg} lies before a step of a raidz expansion; it cannot be rewound to")]
    RewindAcrossExpansion {
        /// The txg wanted.
        txg: Txg,
    },
    /// The vdevs of the configuration are not the ones the uberblock was written for.
    #[error("the sum of the vdevs' guids is {found:x}, the uberblock says {expected:x}")]
    BadGuidSum {
        /// The sum over the configuration.
        found: u64,
        /// The uberblock's.
        expected: u64,
    },
    /// The pool can be read, but not be written to.
    #[error("the pool can only be imported read-only: {reason}")]
    NotWritable {
        /// Why.
        reason: String,
    },
    /// A device was written to after the search that found the pool, and before it was locked.
    #[error("'{}' was written to by another import at the same time; try again", path.display())]
    WrittenMeanwhile {
        /// The device.
        path: PathBuf,
    },
    /// A device cannot be opened for writing.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The thread that writes cannot be started.
    #[error("no thread can be started: {0}")]
    Thread(std::io::Error),
    /// The vdev tree cannot be opened.
    #[error("the vdevs cannot be opened: {0}")]
    Vdevs(#[from] VdevError),
    /// The pool's own metadata cannot be read.
    #[error("the pool's metadata is damaged: {0}")]
    Metadata(#[from] DmuError),
    /// A table that only writing needs cannot be read.
    #[error(
        "{what} cannot be read, and writing needs it: {source}; its files can be copied from an \
         import with '-o readonly=on'"
    )]
    NeededForWriting {
        /// Which.
        what: String,
        /// Why.
        source: Box<ImportError>,
    },
    /// The pool's configuration does not decode.
    #[error("the pool's configuration is damaged: {0}")]
    Config(#[from] DecodeError),
    /// The dataset layer's objects are damaged.
    #[error("the pool's dataset directory is damaged: {0}")]
    Dsl(#[from] DslError),
}

impl ImportError {
    /// Whether metadata of the pool was not to be read, or made no sense.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Metadata(_) | Self::NeededForWriting { .. } | Self::Config(_) | Self::Dsl(_)
        )
    }

    /// The group in which the block was born of which no copy could be read.
    pub(crate) fn lost_birth(&self) -> Option<Txg> {
        let error = match self {
            Self::Metadata(error) | Self::Dsl(DslError::Dmu(error)) => error,
            Self::NeededForWriting { source, .. } => return source.lost_birth(),
            _ => return None,
        };
        match error {
            DmuError::Io(IoError::Unreadable { pointer, .. }) => Some(pointer.physical_birth()),
            _ => None,
        }
    }
}

fn list(missing: &[MissingVdev]) -> String {
    let lines: Vec<String> = missing.iter().map(ToString::to_string).collect();
    lines.join("; ")
}
