//! Why a device of a pool is not changed.

use crate::model::activity::TreatmentKind;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a device is not changed.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceRefusal {
    /// It is a spare.
    #[error("device is reserved as a hot spare")]
    Spare,
    /// It is a cache.
    #[error("device is in use as a cache")]
    Cache,
    /// The pool has no such device.
    #[error("no such device in pool")]
    NotInPool,
    /// There is no device at all.
    #[error("no such device")]
    NoDevice,
    /// A raidz vdev gets no more devices.
    #[error("can only attach to mirrors and top-level disks: raidz vdevs are not widened here")]
    NotWidened,
    /// Something uses it.
    #[error("{device} is busy")]
    Busy {
        /// The device.
        device: String,
    },
    /// The pool refuses the change, in its own words.
    #[error("{reason}")]
    Unchanged {
        /// The words.
        reason: String,
    },
    /// What is there in its place is not the pool's.
    #[error("{what}")]
    Outsider {
        /// What is there, and where.
        what: String,
    },
    /// The name is that of a vdev with devices below it.
    #[error("cannot be done to groups of devices")]
    Group,
    /// No device of the pool can be trimmed.
    #[error("no devices in pool support trim operations")]
    NoneTrims,
    /// It is not there, or no leaf.
    #[error("device is unavailable or not a leaf of the pool")]
    Unavailable,
    /// It is trimmed or initialized already.
    #[error("currently {}", match kind {
        TreatmentKind::Trim => "trimming",
        TreatmentKind::Initialize => "initializing",
    })]
    Treated {
        /// By what.
        kind: TreatmentKind,
    },
    /// It is not trimmed or initialized.
    #[error("there is no active {}", match kind {
        TreatmentKind::Trim => "trim",
        TreatmentKind::Initialize => "initialization",
    })]
    NotTreated {
        /// By what.
        kind: TreatmentKind,
    },
    /// It does not trim.
    #[error("trim operations are not supported by this device")]
    DoesNotTrim,
    /// It is in use, and force does not help.
    #[error("{claim}")]
    Claimed {
        /// The user of the device, with its path.
        claim: String,
    },
    /// It cannot be opened or written.
    #[error("{reason}")]
    Failed {
        /// Why, with its path.
        reason: String,
    },
    /// It has no labels.
    #[error("failed to read label from {path}")]
    NoLabel {
        /// Where it is.
        path: String,
    },
}
