//! The daemon about itself.

use serde::{Deserialize, Serialize};

use super::pool::PoolHealth;

/// A pool in the daemon's care.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolActivity {
    /// Its name.
    pub name: String,
    /// Its health.
    pub health: PoolHealth,
    /// Its mounts.
    pub mounts: u64,
}

/// What `cenote daemon status` shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonStatus {
    /// The program's version.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// Whether it leaves after its last pool is exported.
    pub auto: bool,
    /// Seconds since it started.
    pub uptime: u64,
    /// Its pools.
    pub pools: Vec<PoolActivity>,
    /// Memory it may use, in bytes.
    pub memory_limit: u64,
    /// Memory its caches and buffers use, in bytes.
    pub memory_used: u64,
    /// Why what it has imported is not written down where it should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record_failure: Option<String>,
    /// Which of its pools are in no cache file although they should be, and why: a line for each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cache_failures: Vec<String>,
    /// Pools that should be imported, and are not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingPool>,
}

/// A pool that should be imported, and is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingPool {
    /// Its name when it was last imported.
    pub name: String,
    /// Its guid.
    pub guid: u64,
    /// Where its devices were.
    pub devices: Vec<String>,
    /// When its import was last tried, in seconds since 1970; `None` if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried: Option<u64>,
    /// Why that failed; empty if it was not tried.
    #[serde(default)]
    pub reason: String,
    /// Whether a later attempt may succeed.
    #[serde(default)]
    pub may_come: bool,
    /// Whether a daemon that died had it, which is another message.
    #[serde(default)]
    pub is_lost: bool,
}
