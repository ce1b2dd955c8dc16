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
    /// Keep snapshots from being destroyed. Answer: `Failures`.
    Hold {
        /// The snapshots.
        names: Vec<String>,
        /// Under which name.
        tag: String,
        /// Those of all datasets below, too, where there are such (`-r`).
        recursive: bool,
    },
    /// Give holds up. Answer: `Failures`.
    Release {
        /// The snapshots.
        names: Vec<String>,
        /// The hold's name.
        tag: String,
        /// Those of all datasets below, too, where there are such (`-r`).
        recursive: bool,
    },
    /// Make a dataset that begins as a snapshot, and mount it. Answer: `Done`, or `Failures` of
    /// mounting it.
    Clone {
        /// The snapshot.
        origin: String,
        /// The clone.
        name: String,
        /// Its properties.
        properties: Vec<Pair>,
        /// Make missing parents, and be content if it is there (`-p`).
        parents: bool,
        /// Do not mount it (`-u`).
        unmounted: bool,
    },
    /// Make a clone the owner of what it came from. Answer: `Done`.
    Promote {
        /// The clone.
        dataset: String,
    },
    /// Give a snapshot another name. Answer: `Done`.
    Rename {
        /// The snapshot.
        from: String,
        /// The new name, without the dataset.
        to: String,
        /// Those of all datasets below, too, where there are such (`-r`).
        recursive: bool,
    },
    /// Make a bookmark of a snapshot or bookmark. Answer: `Done`.
    Bookmark {
        /// The snapshot or bookmark.
        source: String,
        /// The new bookmark.
        bookmark: String,
        /// The same of all datasets below that have such a snapshot, all or none (`-r`).
        recursive: bool,
    },
    /// Destroy bookmarks; those that there are not are passed over. Answer: `Done`.
    DestroyBookmarks {
        /// The bookmarks, all of one pool.
        names: Vec<String>,
    },
}

/// Make a dataset what one of its snapshots is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RollBack {
    /// The snapshot.
    pub snapshot: String,
    /// Newer snapshots and bookmarks, to be destroyed first.
    pub newer: Vec<String>,
    /// Clones of these, to be destroyed before them.
    #[serde(default)]
    pub clones: Vec<String>,
    /// Unmount although files are open, what has to be unmounted.
    #[serde(default)]
    pub force: bool,
}
