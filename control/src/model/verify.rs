//! `cenote verify`: every block read and checked.

use serde::{Deserialize, Serialize};

use super::bytes::RawName;

/// What to check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyOptions {
    /// Every copy and all parity, not just what a read needs.
    #[serde(default)]
    pub all_copies: bool,
    /// Only these datasets and snapshots; empty means all.
    #[serde(default)]
    pub datasets: Vec<String>,
    /// Where the progress was written that is to be continued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_from: Option<String>,
    /// Threads; 0 means one for each core.
    #[serde(default)]
    pub threads: u32,
}

/// How far a verification is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyProgress {
    /// Bytes checked, as allocated.
    pub done: u64,
    /// Bytes to check.
    pub total: u64,
    /// Blocks checked.
    pub blocks: u64,
    /// Damaged blocks so far.
    pub damaged: u64,
}

/// One kind of copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyCheck {
    /// Checked.
    pub checked: u64,
    /// Did not match.
    pub bad: u64,
}

/// A file with damaged blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedFile {
    /// The dataset or snapshot.
    pub dataset: String,
    /// The path in it, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<RawName>,
    /// The object number.
    pub object: u64,
    /// Damaged byte ranges: offset and length.
    pub ranges: Vec<(u64, u64)>,
}

/// The outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyReport {
    /// The pool.
    pub pool: String,
    /// Blocks checked.
    pub blocks: u64,
    /// Bytes checked, as allocated.
    pub bytes: u64,
    /// Copies, with `all_copies`.
    pub copies: CopyCheck,
    /// Files with damage.
    pub damaged: Vec<DamagedFile>,
    /// Bytes that the space maps hold allocated and nothing refers to.
    pub leaked: u64,
    /// Bytes that two block pointers claim without sharing.
    pub doubly_allocated: u64,
    /// Figures that do not add up: name, expected, found.
    pub mismatches: Vec<(String, u64, u64)>,
    /// Datasets whose keys were not loaded: their data was authenticated only.
    pub locked: Vec<String>,
    /// Whether it was interrupted.
    pub interrupted: bool,
}
