//! Repeating the operations of an intent log, in memory.
//!
//! After a crash the object set is as the last transaction group left it, and the log holds what
//! was done since with the promise that it lasts. Each record is one operation; applied in order
//! they lead to the state that the callers saw. The outcome is an [`Overlay`], see there.
//!
//! Two things the log does not know are chosen as follows. The time of an operation: OpenZFS
//! uses the time of the replay; here a clock starts at the pool's last sync and moves on with the
//! creation times that records carry, which is nearer to the truth and the same at every mount.
//! And what happens to a record that cannot be applied: as in OpenZFS it ends the replay, unless
//! its kind may be logged out of order and its object is gone, which is normal.

mod apply;
pub(crate) mod attributes;
pub(crate) mod names;
mod state;
#[cfg(test)]
mod tests;

use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::time::Timestamp;
use cenote_base::Txg;
use cenote_dataset::{RecordFailure, ReplayOutcome, replay_records};
use cenote_dmu::ObjectSet;
use cenote_intent_log::IntentLog;
use state::Replay;
use std::sync::Arc;

/// What a replay needs to know beside the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayOptions {
    /// The txg of the pool's uberblock: what is older is in the pool already.
    pub last_synced: Txg,
    /// When that was: the earliest that the log's operations can have been done.
    pub synced_at: Timestamp,
}

/// What a replay did.
pub type ReplayReport = ReplayOutcome<PosixError>;

impl FileSystem {
    /// As [`Self::open`], with the intent log's records applied in memory. Not for snapshots.
    ///
    /// The file system shows the state before a record that cannot be applied; the report says
    /// so. An unreadable log, or one that is shorter than what was claimed, is an error.
    pub fn open_replayed(
        set: Arc<ObjectSet>,
        options: ReplayOptions,
    ) -> Result<(Self, ReplayReport), PosixError> {
        let base = Self::open(set)?;
        let Some(log) = IntentLog::open(base.set())? else {
            return Ok((base, ReplayReport::default()));
        };
        let Some(window) = log.replay_window(options.last_synced) else {
            return Ok((base, ReplayReport::default()));
        };
        let mut replay = Replay::new(&base, options.synced_at);
        let report = replay_records(&log, window, |record| match replay.apply(record) {
            Err(PosixError::NoSuchZnode { .. }) if record.is_out_of_order() => {
                Err(RecordFailure::Gone)
            }
            applied => applied.map_err(RecordFailure::Final),
        })?;
        let (overlay, domains) = replay.finish();
        Ok((base.with_overlay(overlay, domains), report))
    }
}
