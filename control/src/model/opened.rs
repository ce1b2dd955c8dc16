//! How an imported pool was opened, so that another process can read the same state of it.

use serde::{Deserialize, Serialize};

use super::secret::Secret;

/// An imported pool, for commands that read its devices themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedPool {
    /// The name that it is imported under.
    pub name: String,
    /// Its guid.
    pub guid: u64,
    /// The paths of its devices.
    pub devices: Vec<String>,
    /// Where in each device the pool's begins, in bytes.
    pub offset: u64,
    /// The transaction group that it was opened at.
    pub txg: u64,
    /// It was opened at its checkpoint.
    pub checkpoint: bool,
    /// Log devices may be missing.
    pub missing_log: bool,
    /// Intent logs are replayed in memory.
    pub replay: bool,
    /// The keys that are loaded. This reveals nothing new: a client of the daemon could read the
    /// encrypted files through it as well.
    pub keys: Vec<LoadedKey>,
}

/// A key that is loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedKey {
    /// The encryption root.
    pub root: String,
    /// The 32 bytes that wrap its keys.
    pub wrapping_key: Secret,
}
