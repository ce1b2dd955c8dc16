//! The pool's history and the daemon's events.

use serde::{Deserialize, Serialize};

/// What a history record is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryBody {
    /// A command line.
    Command(String),
    /// An internal event.
    Internal {
        /// `create`, `snapshot`, `destroy`…
        event: String,
        /// The transaction group.
        txg: u64,
        /// The dataset's name and object number, where it is about one.
        dataset: Option<(String, u64)>,
        /// The details.
        detail: String,
    },
    /// A control request with its input.
    Ioctl {
        /// The request.
        name: String,
        /// Lines about input and output; a list is indented below its name.
        details: Vec<String>,
    },
    /// A record of the oldest pools: an event number and its words.
    Numbered {
        /// The number.
        event: u64,
        /// The transaction group.
        txg: u64,
        /// The words.
        detail: String,
    },
}

/// One record of `zpool history`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryRecord {
    /// When, in seconds.
    pub time: u64,
    /// What.
    pub body: HistoryBody,
    /// The id of the user that gave the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<u64>,
    /// On which host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// In which zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// `sysevent.fs.zfs.pool_import`, `ereport.fs.zfs.checksum`…
    pub class: String,
    /// When, in seconds.
    pub seconds: u64,
    /// And nanoseconds.
    pub nanoseconds: u32,
    /// Names and printed values, in order.
    pub details: Vec<(String, String)>,
}
