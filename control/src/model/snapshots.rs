//! What a client may ask to be done with snapshots, clones and bookmarks.
//!
//! Names are whole (`tank/home@monday`); the short forms and ranges of a command line are its own
//! business.

use serde::{Deserialize, Serialize};

use super::value::Pair;

/// A change of snapshots, clones or bookmarks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "snapshots", rename_all = "snake_case")]
pub enum SnapshotChange {
    /// Make snapshots, those of a pool in one transaction group or none. Answer: `Failures`.
    Create {
        /// The snapshots.
        names: Vec<String>,
        /// Of all datasets below, too (`-r`).
        recursive: bool,
        /// User properties of each (`-o`).
        properties: Vec<Pair>,
    },
    /// Destroy snapshots, those of a pool in one transaction group or none; those that there are
    /// not are passed over. Answer: `Failures`.
    Destroy {
        /// The snapshots.
        names: Vec<String>,
        /// Have those that are held or cloned go once they are no more (`-d`).
        defer: bool,
    },
}
