//! What verification found, and how far it is.

use serde::{Deserialize, Serialize};

/// What to verify and how.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// Judge every copy and all parity, not only what a reader needs.
    pub all_copies: bool,
    /// Where to save the state, to resume from when there already is one of this pool and txg.
    pub state_file: Option<std::path::PathBuf>,
}

/// How far a verification is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyProgress {
    /// Allocated bytes looked at, parity and copies included.
    pub bytes_done: u64,
    /// Allocated bytes in all.
    pub bytes_total: u64,
    /// Blocks read and found good.
    pub blocks: u64,
    /// The dataset being walked.
    pub dataset: String,
    /// Problems so far.
    pub problems: u64,
}

/// Follows the progress of a verification.
pub trait Watcher: Sync {
    /// Called about every few megabytes.
    fn progress(&self, progress: &VerifyProgress);

    /// Whether to stop; what was done is saved if there is a state file.
    fn cancelled(&self) -> bool;
}

/// A block that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedBlock {
    /// The dataset or snapshot; empty for the pool's own metadata.
    pub dataset: String,
    /// The dataset's object in the meta object set; 0 for the pool's own metadata.
    pub objset: u64,
    /// The object within it.
    pub object: u64,
    /// The block's level.
    pub level: u8,
    /// The block's number; 2^64-1 for a spill block.
    pub block: u64,
    /// What is wrong.
    pub problem: String,
    /// The file's path, if a layer that knows file systems has added it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub path: Option<String>,
}

/// What a verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyReport {
    /// The pool's name.
    pub pool: String,
    /// The txg verified.
    pub txg: u64,
    /// Whether everything was read.
    pub complete: bool,
    /// Blocks read and found good.
    pub blocks: u64,
    /// Their stored bytes.
    pub bytes_physical: u64,
    /// Their bytes when decompressed.
    pub bytes_logical: u64,
    /// Bytes allocated for them, parity and copies included.
    pub bytes_allocated: u64,
    /// Blocks met again by dedup or cloning.
    pub blocks_shared: u64,
    /// Blocks whose contents were not checked beyond the checksum for want of a key.
    pub blocks_without_key: u64,
    /// Copies (or parity) that are bad though the block was read from others.
    pub bad_copies: u64,
    /// Blocks that cannot be read, at most [`PROBLEMS_MAX`].
    pub damaged: Vec<DamagedBlock>,
    /// Contradictions in the space maps, at most [`PROBLEMS_MAX`].
    pub space: Vec<String>,
    /// Contradictions in the datasets' accounting and the feature counts.
    pub accounting: Vec<String>,
    /// Devices in use that lack what was written while they were away.
    #[serde(default)]
    pub stale: Vec<String>,
    /// What could not be checked, and why.
    pub notes: Vec<String>,
    /// All problems, also those beyond the lists' limit.
    pub problems: u64,
}

/// More problems than this are counted but not listed.
pub const PROBLEMS_MAX: usize = 10_000;

impl VerifyReport {
    /// Whether everything was read and no problem was found.
    pub fn is_clean(&self) -> bool {
        self.complete && self.problems == 0 && self.stale.is_empty()
    }

    pub(crate) fn push_damaged(&mut self, damaged: DamagedBlock) {
        self.problems += 1;
        if self.damaged.len() < PROBLEMS_MAX {
            self.damaged.push(damaged);
        }
    }

    pub(crate) fn push_space(&mut self, problem: String) {
        self.problems += 1;
        if self.space.len() < PROBLEMS_MAX {
            self.space.push(problem);
        }
    }
}
