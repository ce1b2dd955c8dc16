//! Why a pool as a whole is not changed, scanned or split.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a pool is not changed.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PoolRefusal {
    /// An imported pool has this guid.
    #[error("a pool with that guid already exists")]
    GuidTaken,
    /// An imported pool has this name.
    #[error("pool already exists")]
    NameTaken,
    /// What a resilver is still to write cannot be split off.
    #[error("a resilver is under way")]
    ResilverUnderWay,
    /// The pool cannot be split, in its own words.
    #[error("{reason}")]
    NotSplit {
        /// The words.
        reason: String,
    },
    /// Other pools could use its spare once it is exported.
    #[error(
        "pool has active shared spare device. Replace the device that the spare stands in for, or \
         use '-f': other pools cannot use the spare then"
    )]
    SharedSpareInUse,
    /// Another import wrote to the pool between this one's search and its lock on the devices.
    #[error("'{path}' was written to by another import at the same time; run the command again")]
    WrittenMeanwhile {
        /// The device.
        path: String,
    },
    /// A scrub runs.
    #[error("currently scrubbing; use 'zpool scrub -s' to cancel scrub")]
    Scrubbing,
    /// A resilver runs.
    #[error("currently resilvering")]
    Resilvering,
    /// No scrub runs.
    #[error("there is no active scrub")]
    NotScrubbing,
    /// A scrub waits to be resumed.
    #[error("scrub is paused; use 'zpool scrub' to resume scrub")]
    ScrubPaused,
    /// The pool lacks a feature that this needs.
    #[error("this action requires the {feature} feature")]
    NeedsFeature {
        /// Its short name.
        feature: String,
    },
}
