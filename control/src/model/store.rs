//! Devices in object stores.

use serde::{Deserialize, Serialize};

/// How a device in a store is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStatus {
    /// Where: `file:///srv/store`.
    pub place: String,
    /// Which device.
    pub uuid: String,
    /// Its size in bytes.
    pub size: u64,
    /// The number of its newest commit.
    pub commit: u64,
    /// The host that made it, and so has the device.
    pub host: String,
    /// When it was made, in seconds since 1970.
    pub written: u64,
    /// Whether it has no owner: the last writer has released it.
    #[serde(default)]
    pub released: bool,
    /// Whether it is only read, as of that commit.
    #[serde(default)]
    pub read_only: bool,
    /// Whether flushes wait for the store.
    pub writethrough: bool,
    /// Bytes that are not in the store yet.
    pub pending_bytes: u64,
    /// How long the oldest of them has waited, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_seconds: Option<u64>,
    /// Bytes of the local log in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_used: Option<u64>,
    /// Bytes of the local log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_size: Option<u64>,
    /// For how many seconds the store has not answered; none while it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable_seconds: Option<u64>,
    /// The object with the longest series of failed requests: its name, the seconds, the last
    /// answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaited: Option<(String, u64, String)>,
    /// What was said when a request failed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The first objects that were found damaged, each with what is wrong with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<(String, String)>,
    /// How many there are.
    #[serde(default)]
    pub damaged_count: u64,
    /// What the store was found to have lost first, since a verification found all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// Objects that were put again from this side since then.
    #[serde(default)]
    pub put_again: u64,
    /// Why nothing can be written to it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// A local log that was put aside, because another host took the device over without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_aside: Option<String>,
    /// Bytes in that log that never came into the store.
    #[serde(default)]
    pub log_aside_bytes: u64,
}

/// What is to be done with a pool's devices in object stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreAct {
    /// Only report the status.
    Status,
    /// Write what is dirty, and upload everything.
    Sync,
    /// Compact objects of which little is needed.
    Compact,
    /// Compare everything that is needed with its checksums, and put again what the store has lost.
    Verify,
}

/// An object in a store that is not as it was put.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreFault {
    /// Its name.
    pub key: String,
    /// What is wrong with it.
    pub what: String,
    /// The bytes of the device that it concerns, from and to.
    pub ranges: Vec<(u64, u64)>,
}

/// The outcome of a verification of a device in a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreVerified {
    /// Data objects that were checked.
    pub objects: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Pages of the map that were checked.
    pub pages: u64,
    /// Objects with something wrong.
    pub faulty: u64,
    /// The first of them.
    pub faults: Vec<StoreFault>,
    /// Damage of bytes that nothing needs, and what cannot be judged.
    pub remarks: Vec<StoreFault>,
    /// Objects that were put again from this side.
    pub put_again: u64,
}

/// Requests of one kind to a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreRequests {
    /// The kind: `put`.
    pub kind: String,
    /// How many were made, repetitions too.
    pub requests: u64,
    /// Those that may be tried again.
    pub transient: u64,
    /// Those that were refused for want of a right.
    pub denied: u64,
    /// Those that failed in another way.
    pub failed: u64,
    /// Bytes that were sent.
    pub sent: u64,
    /// Bytes that came.
    pub received: u64,
    /// How many had less than 2^n bytes, and not less than 2^(n-1).
    pub sizes: Vec<u64>,
    /// How many batches took less than 2^n ms, and not less than 2^(n-1).
    pub latencies: Vec<u64>,
}

/// A full report on a device in a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreReport {
    /// How it is.
    pub status: StoreStatus,
    /// Bytes of data objects that addresses point to, at most.
    pub live_bytes: u64,
    /// Whether the number is exact.
    #[serde(default)]
    pub live_exact: bool,
    /// Bytes of data objects that are not removed.
    pub stored_bytes: u64,
    /// Bytes of memory that the map takes.
    pub map_memory: u64,
    /// Commits since it was opened.
    pub commits: u64,
    /// Checkpoints since it was opened.
    pub checkpoints: u64,
    /// Bytes that compaction has moved since then.
    pub compacted_bytes: u64,
    /// Objects that were removed since then.
    pub deleted: u64,
    /// Requests since then, by kind.
    pub requests: Vec<StoreRequests>,
    /// What a verification found, if one was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<StoreVerified>,
}
