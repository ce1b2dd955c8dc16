//! Pools in lists and in `zpool status`.

use serde::{Deserialize, Serialize};

use super::activity::{
    CheckpointState, Due, IntentLogReport, RaidzExpand, Rebuild, RemovalActivity, Scan,
};
use super::approval::WaitingValue;
use super::bytes::RawName;
use super::condition::Condition;
use super::diagnosis::Diagnosis;
use super::store::StoreStatus;
use super::value::Property;
use super::vdev::VdevTree;

/// A pool's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PoolHealth {
    /// All devices work.
    Online,
    /// Some redundancy is lost.
    Degraded,
    /// It cannot be used.
    Faulted,
    /// It cannot be opened.
    Unavail,
    /// I/O failed and the pool waits.
    Suspended,
    /// Its devices are offline.
    Offline,
    /// Its devices are gone.
    Removed,
}

impl PoolHealth {
    /// The word in lists.
    pub fn word(self) -> &'static str {
        match self {
            PoolHealth::Online => "ONLINE",
            PoolHealth::Degraded => "DEGRADED",
            PoolHealth::Faulted => "FAULTED",
            PoolHealth::Unavail => "UNAVAIL",
            PoolHealth::Suspended => "SUSPENDED",
            PoolHealth::Offline => "OFFLINE",
            PoolHealth::Removed => "REMOVED",
        }
    }
}

/// One pool with the requested properties.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolRow {
    /// Its name.
    pub name: String,
    /// Its guid.
    pub guid: u64,
    /// The last synced transaction group.
    pub txg: u64,
    /// The format's version: 1..=28 or 5000.
    pub version: u64,
    /// Its health.
    pub health: PoolHealth,
    /// Its properties, in any order.
    pub properties: Vec<Property>,
    /// Its vdevs, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vdevs: Option<VdevTree>,
}

impl PoolRow {
    /// The property `name`, if it was requested.
    pub fn property(&self, name: &str) -> Option<&Property> {
        self.properties
            .iter()
            .find(|property| property.name == name)
    }
}

/// Where a permanent error is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataErrorPlace {
    /// A file of a mounted dataset: its absolute path.
    Path(RawName),
    /// A file of a dataset that is not mounted.
    File {
        /// The dataset.
        dataset: String,
        /// The path in it, beginning with `/`.
        path: RawName,
    },
    /// An object whose path is not known.
    Object {
        /// The dataset.
        dataset: String,
        /// The object number.
        object: u64,
    },
    /// An object of the pool's own metadata.
    Metadata {
        /// The object number.
        object: u64,
    },
    /// An object of a dataset that is not known.
    Unknown {
        /// The object set.
        objset: u64,
        /// The object number.
        object: u64,
    },
}

/// A permanent error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataError {
    /// Where.
    pub place: DataErrorPlace,
}

/// The deduplication table in figures (`zpool status -D`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DedupSummary {
    /// Entries.
    pub entries: u64,
    /// Bytes on disk.
    pub on_disk: u64,
    /// Bytes in memory.
    pub in_core: u64,
    /// The blocks by log2 of their references, those without any left out.
    #[serde(default)]
    pub histogram: Vec<DedupBucket>,
}

/// The blocks of a pool with about as many references.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DedupBucket {
    /// Log2 of the least number of references.
    pub power: u32,
    /// The blocks, once each.
    pub stored: DedupSum,
    /// The blocks times their references.
    pub referenced: DedupSum,
}

/// Blocks and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DedupSum {
    /// Blocks.
    pub blocks: u64,
    /// Bytes before compression.
    pub logical: u64,
    /// Bytes after it.
    pub physical: u64,
    /// Bytes that they take of the pool's space.
    pub allocated: u64,
}

/// Everything that `zpool status` can show of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolStatus {
    /// Its name.
    pub name: String,
    /// Its guid.
    pub guid: u64,
    /// The last synced transaction group.
    pub txg: u64,
    /// The format's version.
    pub version: u64,
    /// Its health.
    pub health: PoolHealth,
    /// What the administrator should know first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
    /// The last or running scan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scan: Option<Scan>,
    /// What follows it, or is about to begin.
    #[serde(default)]
    pub due: Due,
    /// Rebuilds, last or running.
    #[serde(default)]
    pub rebuilds: Vec<Rebuild>,
    /// The last or running removal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removal: Option<RemovalActivity>,
    /// The checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointState>,
    /// The last or running expansion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expand: Option<RaidzExpand>,
    /// Its vdevs.
    pub vdevs: VdevTree,
    /// Entries in the error log.
    pub error_count: u64,
    /// The errors themselves, if requested.
    #[serde(default)]
    pub errors: Vec<DataError>,
    /// Intent logs with records, when they were last checked.
    #[serde(default)]
    pub intent_logs: Vec<IntentLogReport>,
    /// The deduplication table, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedup: Option<DedupSummary>,
    /// Values that wait for the administrator's yes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitingValue>,
    /// Its devices in object stores.
    #[serde(default)]
    pub stores: Vec<StoreStatus>,
    /// Devices that bear guids of its vdevs and are not used.
    #[serde(default)]
    pub outsiders: Vec<Diagnosis>,
    /// It was imported for writing, too.
    #[serde(default)]
    pub is_writable: bool,
    /// Metadata that cannot be read, and that reading files does not need, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
    /// Faults that are injected on purpose.
    #[serde(default)]
    pub injected: u64,
}
