//! The differences between two snapshots.

use serde::{Deserialize, Serialize};

use super::bytes::RawName;

/// What happened to a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiffChange {
    /// It is new (`+`).
    Added,
    /// It is gone (`-`).
    Removed,
    /// It was changed (`M`).
    Modified {
        /// By how much its link count changed.
        links: i64,
    },
    /// It has another name (`R`).
    Renamed {
        /// The new path.
        to: RawName,
    },
}

/// One line of `zfs diff`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffRecord {
    /// What happened.
    pub change: DiffChange,
    /// The path in the dataset, beginning with `/`.
    pub path: RawName,
    /// `F` file, `/` directory, `@` link, `|` fifo, `=` socket, `B` block, `C` character, `>` door.
    pub file_type: char,
    /// When the object was last changed: seconds and nanoseconds.
    pub changed: (u64, u32),
}
