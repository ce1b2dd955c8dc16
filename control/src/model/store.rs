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
    /// What was said when a request failed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Why nothing can be written to it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// A local log that was put aside, because another host went on without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_aside: Option<String>,
    /// Bytes in that log that never came into the store.
    #[serde(default)]
    pub log_aside_bytes: u64,
}
