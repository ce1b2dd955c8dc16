//! Why disks of this machine are not created for volumes, or not removed.

use crate::model::shell_word;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a volume gets no disk, or keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UblkRefusal {
    /// The program or the kernel cannot make disks.
    #[error("{reason}")]
    Unavailable {
        /// Why, and what helps.
        reason: String,
    },
    /// The kernel made no disk.
    #[error("{reason}")]
    NotServed {
        /// Why.
        reason: String,
    },
    /// Nothing of that name is a disk.
    #[error("'{target}' has no disk on this machine; 'cenote ublk status' lists those that have")]
    Unknown {
        /// The name or path.
        target: String,
    },
    /// It exists because of a property.
    #[error(
        "'{dataset}' has a disk because of its property; run 'zfs set cenote:ublk=off {}'",
        shell_word(dataset)
    )]
    ByProperty {
        /// The volume or snapshot.
        dataset: String,
    },
    /// It is open.
    #[error(
        "{device} of '{dataset}' is in use: it is mounted, or a program has it open; unmount or \
         close it first, or use -f, which fails all further requests to it"
    )]
    InUse {
        /// The volume or snapshot.
        dataset: String,
        /// The kernel's device.
        device: String,
    },
    /// It cannot be removed.
    #[error("{device} of '{dataset}' cannot be taken away: {reason}")]
    Stays {
        /// The volume or snapshot.
        dataset: String,
        /// The kernel's device.
        device: String,
        /// The kernel's reason.
        reason: String,
    },
    /// The volume has its new size, the disk does not.
    #[error(
        "the volume has its new size, but {device} keeps the old one: {reason}. Unmount it, then \
         run 'cenote ublk stop {}' and 'cenote ublk serve {}'",
        shell_word(dataset),
        shell_word(dataset)
    )]
    Size {
        /// The volume.
        dataset: String,
        /// The kernel's device.
        device: String,
        /// Why.
        reason: String,
    },
}
