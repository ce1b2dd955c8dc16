//! Repeating the operations of an intent log in memory, for a pool that must not change.
//!
//! The records are applied as they are on disk, in transactions of a gate whose only group stays
//! open ([`OpenDataset::in_memory`]): all that they change stays in memory, over the object set as
//! it is on disk. Afterwards the file system takes no changes any more. What differs:
//!
//! - Blocks that records point to become blocks of the file if they are whole, and are read when
//!   the file is read.
//! - Nothing is waited for, and no header says how far the replay came.
//! - If it fails for any reason, it ends there: the file system shows the records that were
//!   applied, and the report says why. Only if memory runs out, the file system is not opened.

use super::{LogReplay, ReplayClock, ReplayReport};
use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::time::Timestamp;
use crate::write::WriteSettings;
use cenote_base::{Env, Txg};
use cenote_dataset::{OpenDataset, RecordFailure, replay_records};
use cenote_dmu::{DmuError, ObjectSet};
use cenote_intent_log::IntentLog;
use cenote_ondisk::intent_log::record::Record;
use std::sync::Arc;

/// What a replay in memory needs to know beside the log.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// The txg of the pool's uberblock: what is older is in the pool already.
    pub last_synced: Txg,
    /// When that was: the earliest that the log's operations can have been done.
    pub synced_at: Timestamp,
    /// The dataset's properties.
    pub settings: WriteSettings,
    /// Where time comes from.
    pub env: Arc<dyn Env>,
}

impl FileSystem {
    /// As [`Self::open`], with the intent log's records applied in memory. Not for snapshots.
    ///
    /// The file system shows the state before a record that cannot be applied; the report says so.
    ///
    /// # Errors
    /// If the log is unreadable, or shorter than what was claimed, or its outcome does not fit in
    /// memory.
    pub fn open_replayed(
        set: Arc<ObjectSet>,
        options: &ReplayOptions,
    ) -> Result<(Self, ReplayReport), PosixError> {
        let base = Self::open(set)?;
        let Some(log) = IntentLog::open(base.set())? else {
            return Ok((base, ReplayReport::default()));
        };
        let Some(window) = log.replay_window(options.last_synced) else {
            return Ok((base, ReplayReport::default()));
        };
        Self::in_memory(base.set(), options, |replay| {
            replay_records(&log, window, |record| replay.apply_in_memory(record))
        })
    }

    /// The file system in `set` with changes that are in memory only.
    pub(super) fn in_memory<R>(
        set: &ObjectSet,
        options: &ReplayOptions,
        change: impl FnOnce(&LogReplay<'_>) -> Result<R, PosixError>,
    ) -> Result<(Self, R), PosixError> {
        let clock = ReplayClock::since(&options.env, options.synced_at);
        let env = Arc::clone(&clock) as Arc<dyn Env>;
        let dataset = OpenDataset::in_memory(set, options.last_synced, env);
        let files = Self::open_writable(Arc::new(dataset), options.settings)?;
        let replay = LogReplay::new(&files, clock, None);
        let done = change(&replay)?;
        let domains = replay.domains.into_inner();
        Ok((files.read_only(domains), done))
    }
}

impl LogReplay<'_> {
    /// Applies a record; an error says whether it ends the replay or the file system cannot be
    /// shown at all.
    pub(super) fn apply_in_memory(
        &self,
        record: &Record<'_>,
    ) -> Result<(), RecordFailure<PosixError>> {
        match self.apply(record) {
            Err(PosixError::NoSuchZnode { .. }) if record.is_out_of_order() => {
                Err(RecordFailure::Gone)
            }
            Err(PosixError::Dmu(DmuError::Memory(exceeded))) => {
                Err(RecordFailure::Failed(PosixError::ReplayMemory(exceeded)))
            }
            applied => applied.map_err(RecordFailure::Final),
        }
    }
}
