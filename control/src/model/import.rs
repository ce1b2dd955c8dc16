//! Finding and importing pools.

use serde::{Deserialize, Serialize};

use super::condition::FeatureName;
use super::diagnosis::Diagnosis;
use super::pool::PoolHealth;
use super::vdev::VdevTree;

/// Where to look for devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Search {
    /// Directories, devices and files, absolute; empty means the usual places.
    pub paths: Vec<String>,
    /// A pool cache file to take the configurations from instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_file: Option<String>,
    /// Byte offset of the pool inside each device or file of `paths`, 0 for the whole.
    #[serde(default)]
    pub offset: u64,
    /// Look for destroyed pools instead (`-D`).
    #[serde(default)]
    pub destroyed: bool,
}

/// Which of the pools found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImportPick {
    /// All that can be imported.
    All,
    /// By name.
    Name(String),
    /// By guid.
    Guid(u64),
}

/// How far back an import may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rewind {
    /// Only the newest state.
    #[default]
    Never,
    /// A few transaction groups (`-F`).
    Recent,
    /// Any that can still be read (`-FX`).
    Extreme,
    /// Exactly this transaction group (`-T`).
    Txg(u64),
}

/// An older state that an import went back to, on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewound {
    /// Its transaction group.
    pub txg: u64,
    /// When that was written, in seconds since 1970.
    pub time: u64,
    /// Seconds from then to the newest state: what is discarded.
    pub lost_seconds: u64,
}

/// Whether there is an older state that can be read, if the newest one cannot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OlderState {
    /// It was not checked.
    #[default]
    Unknown,
    /// None can be read.
    None,
    /// This one can be read.
    Found {
        /// The newest of them.
        state: Rewound,
        /// It is too old for `-F` alone.
        extreme: bool,
    },
}

/// How to import.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportOptions {
    /// Give it this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_name: Option<String>,
    /// The new name is for this import only (`-t`).
    #[serde(default)]
    pub temporary_name: bool,
    /// `-o readonly=on`.
    #[serde(default)]
    pub readonly: bool,
    /// Put mount points below this directory (`-R`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub altroot: Option<String>,
    /// Import although another host may use it (`-f`).
    #[serde(default)]
    pub force: bool,
    /// How far back to go.
    #[serde(default)]
    pub rewind: Rewind,
    /// Only find out whether the rewind would work (`-n`).
    #[serde(default)]
    pub rewind_dry_run: bool,
    /// Go back to the checkpoint.
    #[serde(default)]
    pub checkpoint_rewind: bool,
    /// Import without a missing log device (`-m`).
    #[serde(default)]
    pub missing_log: bool,
    /// Do not mount anything (`-N`).
    #[serde(default)]
    pub no_mount: bool,
    /// Replay the intent log in memory (`-o cenote:replay=memory`).
    #[serde(default)]
    pub replay_in_memory: bool,
    /// Temporary mount options (`-o` without `=`).
    #[serde(default)]
    pub mount_options: Vec<String>,
    /// Other pool properties (`-o name=value`).
    #[serde(default)]
    pub properties: Vec<(String, String)>,
}

/// Why a pool in the listing of `zpool import` needs attention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImportCondition {
    /// Devices are missing.
    MissingDevices,
    /// Devices hold corrupt data.
    CorruptDevices,
    /// The pool's data is corrupt.
    CorruptData,
    /// Devices are offline.
    OfflineDevices,
    /// The pool's metadata is corrupt.
    CorruptPool,
    /// A version before features.
    LegacyVersion,
    /// A version newer than the software.
    VersionNewer,
    /// Features are disabled.
    FeaturesDisabled,
    /// Features beyond the compatibility list.
    IncompatibleFeatures,
    /// Features needed even to read.
    UnsupportedRead(Vec<FeatureName>),
    /// Features needed to write.
    UnsupportedWrite(Vec<FeatureName>),
    /// Only read-only imports work, and why.
    OnlyReadable(String),
    /// Last used by another host and not exported.
    ForeignHost,
    /// In use by another host right now.
    ActiveElsewhere,
    /// Multihost is on and this host has no id.
    HostIdRequired,
    /// Devices are faulted.
    FaultedDevices,
    /// The intent log cannot be read.
    BadLog,
    /// Devices were being resilvered.
    Resilvering,
    /// The traces of a known bug.
    Errata(u64),
    /// The guids do not add up: a top-level vdev is missing.
    BadGuidSum,
    /// Its devices are another pool's by now.
    Overwritten {
        /// That pool's name.
        by: String,
    },
}

/// A pool that the search found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportCandidate {
    /// Its name.
    pub name: String,
    /// Its guid.
    pub guid: u64,
    /// How it would be.
    pub health: PoolHealth,
    /// Whether `zpool destroy` was called on it.
    #[serde(default)]
    pub destroyed: bool,
    /// Its comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The host that last wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// That host's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostid: Option<u64>,
    /// When the best uberblock was written, seconds.
    #[serde(default)]
    pub timestamp: u64,
    /// The best uberblock's transaction group.
    #[serde(default)]
    pub txg: u64,
    /// Why it needs attention.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<ImportCondition>,
    /// Its vdevs with the states that they would have.
    pub vdevs: VdevTree,
    /// What is wrong with its devices.
    #[serde(default)]
    pub diagnoses: Vec<Diagnosis>,
}
