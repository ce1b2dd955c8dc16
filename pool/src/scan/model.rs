//! Scans as other modules see them: requests, status and errors.

use crate::sync::SyncError;
use cenote_base::Txg;
use cenote_dsl::DslError;
use cenote_ondisk::scan::Scan;

/// What is to be scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanRequest {
    /// All blocks born after `since`, and up to `until` or, without it, up to now. A paused scrub
    /// is resumed, whatever its range.
    Scrub {
        /// The last group that is left out; 0 for none.
        since: Txg,
        /// The last group that is read.
        until: Option<Txg>,
    },
    /// What devices missed.
    Resilver,
}

/// The last or current scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanStatus {
    /// As stored in the pool, with the progress since then.
    pub scan: Scan,
    /// When this process began or resumed it, in seconds UTC; 0 if it did not.
    pub pass_start: u64,
    /// Bytes walked over since then.
    pub pass_examined: u64,
    /// Bytes read since then.
    pub pass_issued: u64,
    /// When it was paused, in seconds UTC; 0 if it is not, or not known.
    pub pause_time: u64,
}

/// A scan does not begin, pause or end as wanted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// A scrub is under way.
    #[error("currently scrubbing")]
    Scrubbing,
    /// A resilver is under way.
    #[error("currently resilvering")]
    Resilvering,
    /// There is no scrub.
    #[error("there is no active scrub")]
    NotScrubbing,
    /// The scrub is paused already.
    #[error("the scrub is paused already")]
    Paused,
    /// The list of damaged blocks cannot be read.
    #[error(transparent)]
    Log(DslError),
    /// The pool takes no changes.
    #[error(transparent)]
    Sync(#[from] SyncError),
    /// No thread can be started.
    #[error("a scan cannot get a thread: {0}")]
    Thread(std::io::Error),
}
