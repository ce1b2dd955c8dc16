//! Changes of the devices of a pool that is in use.

use serde::{Deserialize, Serialize};

use super::value::Pair;

/// A device that comes beside one of the pool's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachedDevice {
    /// The pool.
    pub pool: String,
    /// Its device, by any of its names.
    pub device: String,
    /// The new one: an absolute path, or one of the pool's spares; not set, another one in the
    /// same place.
    pub new: Option<String>,
    /// It is to take the other's place, not to be one more side of a mirror.
    pub replaces: bool,
    /// Bring it what it misses in the order of the disk (`-s`).
    #[serde(default)]
    pub sequential: bool,
    /// `ashift` (`-o`).
    pub properties: Vec<Pair>,
    /// Take a device that is in use or does not fit (`-f`).
    pub force: bool,
}

/// A pool that is to be made of one side of each mirror of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitPool {
    /// The pool that is there.
    pub pool: String,
    /// What the other is called.
    pub new: String,
    /// Devices that are to go; of the other mirrors the last one does.
    pub devices: Vec<String>,
    /// Properties of the new pool (`-o`).
    pub properties: Vec<Pair>,
    /// Import the new pool with all its mount points below this directory (`-R`).
    pub altroot: Option<String>,
    /// Do not mount: the keys come first (`-l`).
    pub no_mount: bool,
    /// How its file systems are to be mounted (`-o`).
    pub mount_options: Vec<String>,
    /// Only say which devices would go (`-n`).
    pub dry_run: bool,
}

/// A change of devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "device_change", rename_all = "snake_case")]
pub enum DeviceChange {
    /// Take devices out of use. Answer: `Failures`, by device.
    Offline {
        /// The pool.
        pool: String,
        /// Its devices, by any of their names.
        devices: Vec<String>,
        /// Only until the pool is imported again (`-t`).
        temporary: bool,
        /// They are to count as faulted (`-f`).
        fault: bool,
    },
    /// Put a device beside another one. Answer: `Done`.
    Attach(AttachedDevice),
    /// Take a device away. Answer: `Done`.
    Detach {
        /// The pool.
        pool: String,
        /// Its device, by any of its names.
        device: String,
    },
    /// Remove log, spare and cache devices from the pool. Answer: `Failures`, by device.
    Remove {
        /// The pool.
        pool: String,
        /// Its devices or top-level vdevs, by any of their names.
        devices: Vec<String>,
        /// Only say whether they can be removed (`-n`).
        dry_run: bool,
    },
    /// Look again for devices that are not there. Answer: `Done`.
    Reopen {
        /// The pool.
        pool: String,
    },
}
