//! Volumes that the daemon serves as disks of this machine's kernel (ublk).

use serde::{Deserialize, Serialize};

/// What about disks of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UblkAct {
    /// Make disks of volumes and snapshots of volumes.
    Serve {
        /// Their names.
        volumes: Vec<String>,
        /// Although they could be written to.
        read_only: bool,
    },
    /// Say which disks there are.
    Status,
    /// Take disks away.
    Stop {
        /// Names of volumes and snapshots, or paths of disks; empty means all that commands made.
        targets: Vec<String>,
        /// Although they are open.
        force: bool,
    },
}

/// The disks that a daemon has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UblkStatus {
    /// In order of name.
    pub disks: Vec<UblkDisk>,
    /// Disks of daemons that died, which no pool here has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<UblkLeft>,
    /// Volumes that should have a disk and have none, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<UblkFailure>,
    /// Why there can be no disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
    /// Whether the property `cenote:ublk` enables disks.
    #[serde(default)]
    pub is_wanted: bool,
}

/// A volume or snapshot that is a disk of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UblkDisk {
    /// The volume or snapshot.
    pub dataset: String,
    /// The kernel's device.
    pub device: String,
    /// The link to it; not set if it cannot be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Bytes.
    pub size: u64,
    /// Whether it can only be read.
    pub is_read_only: bool,
    /// Whether it is there because of the property `cenote:ublk`.
    pub is_by_property: bool,
    /// Whether it is mounted, or a program has it open.
    pub is_open: bool,
    /// It is no longer requested: it is removed when it is closed.
    #[serde(default)]
    pub is_leaving: bool,
    /// Requests that were carried out.
    pub requests: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
}

/// A disk whose daemon died.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UblkLeft {
    /// The volume or snapshot.
    pub dataset: String,
    /// The kernel's device.
    pub device: String,
}

/// A volume without the disk that it should have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UblkFailure {
    /// The volume or snapshot.
    pub dataset: String,
    /// Why.
    pub reason: String,
}
