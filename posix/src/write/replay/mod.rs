//! Repeating the operations of an intent log, on disk or in memory.
//!
//! After a crash, the log holds synchronous changes that are in no transaction group yet. When the
//! dataset is opened for writing, before it is visible, each record becomes a transaction of its
//! own. The same transaction notes the record in the log's header. So a crash in the middle of a
//! replay is like any other: the groups that were written hold the records up to the one that their
//! header names, and the next replay resumes behind it. A record that takes more than one
//! transaction can be repeated as often as one likes.
//!
//! A pool that must not change is replayed [in memory](memory), in the same transactions.
//!
//! Nothing is refused here that was not refused when it was done first: neither quotas nor flags
//! of files count. Objects get the numbers and times that the records name; where records name no
//! time a clock does that starts at the pool's last sync and moves on with those times: OpenZFS
//! uses the time of the replay, but this is nearer to the truth and the same at every mount. A
//! record that contradicts the file system ends the replay, as it does in OpenZFS.

mod attributes;
mod contents;
pub(crate) mod memory;
mod names;
#[cfg(test)]
mod tests;

use super::WriteSettings;
use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::fuid::FuidTable;
use crate::time::Timestamp;
use crate::write::change::Change;
use cenote_base::rt::{Mutex, ranks};
use cenote_base::{Env, ObjectId};
use cenote_dataset::{OpenDataset, RecordFailure, ReplayOutcome, replay_records};
use cenote_dmu::DmuError;
use cenote_intent_log::IntentLog;
use cenote_ondisk::intent_log::IntentLogHeader;
use cenote_ondisk::intent_log::record::{Record, RecordBody};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Files whose last block is remembered to be cleared behind their end: beyond that many, the
/// blocks stay as the log has them.
const TAILS_MAX: usize = 1 << 20;

/// What a replay did.
pub type ReplayReport = ReplayOutcome<PosixError>;

/// The clock of a replay.
#[derive(Debug)]
struct ReplayClock {
    env: Arc<dyn Env>,
    now: Mutex<Duration, ranks::ReplayClock>,
}

impl ReplayClock {
    /// A clock that shows `now` until a record has a later time.
    fn new(env: &Arc<dyn Env>, now: Duration) -> Arc<Self> {
        Arc::new(Self {
            env: Arc::clone(env),
            now: Mutex::new(now),
        })
    }

    /// A clock that shows the time of a file.
    fn since(env: &Arc<dyn Env>, since: Timestamp) -> Arc<Self> {
        let seconds = u64::try_from(since.seconds).unwrap_or(0);
        Self::new(env, Duration::new(seconds, since.nanoseconds))
    }

    /// A record says that it was this late.
    fn advance(&self, time: Timestamp) {
        let seconds = u64::try_from(time.seconds).unwrap_or(0);
        let time = Duration::new(seconds, time.nanoseconds);
        let mut now = self.now.lock();
        *now = now.max(time);
    }

    /// What a record changes was changed at this time before. A time that is still to come does
    /// not count: it is from a clock that was wrong.
    fn follow(&self, time: Timestamp) {
        let seconds = u64::try_from(time.seconds).unwrap_or(0);
        if Duration::new(seconds, time.nanoseconds) <= self.env.wall_clock() {
            self.advance(time);
        }
    }
}

impl Env for ReplayClock {
    fn wall_clock(&self) -> Duration {
        *self.now.lock()
    }

    fn monotonic(&self) -> Duration {
        self.env.monotonic()
    }

    fn sleep(&self, duration: Duration) {
        self.env.sleep(duration);
    }

    fn fill_random(&self, buffer: &mut [u8]) -> std::io::Result<()> {
        self.env.fill_random(buffer)
    }
}

/// A replay under way.
struct LogReplay<'a> {
    files: &'a FileSystem,
    clock: Arc<ReplayClock>,
    /// The header of the log, if what is applied is to be noted in it.
    header: Option<&'a IntentLogHeader>,
    /// The record being applied.
    sequence: AtomicU64,
    /// Files with bytes behind their end in their last block.
    tails: Mutex<BTreeSet<ObjectId>, ranks::ReplayTails>,
    /// The domains of the file system, and those that records name.
    domains: RefCell<FuidTable>,
}

impl FileSystem {
    /// Applies the records of a claimed log to the file system in `dataset`, which has no other
    /// user. `since` is when the pool was synced last before the log was written.
    ///
    /// The log stays; its header notes what was applied. The caller destroys it in a later
    /// transaction.
    ///
    /// # Errors
    /// If the log or the file system cannot be read, or the pool cannot be written. The replay can
    /// then be tried again.
    pub fn replay_log(
        dataset: &OpenDataset,
        log: &IntentLog,
        settings: WriteSettings,
        since: Timestamp,
    ) -> Result<ReplayReport, PosixError> {
        let clock = ReplayClock::since(dataset.env(), since);
        let dataset = dataset.for_replay(Arc::clone(&clock) as Arc<dyn Env>);
        let files = Self::open_writable(Arc::new(dataset), settings)?;
        // What lost its last name before the crash must be gone: its number may be taken again.
        files.drain_delete_queue()?;
        let replay = LogReplay::new(&files, clock, Some(log.header()));
        let Some(window) = log.replay_window(cenote_base::Txg(0)) else {
            return Ok(ReplayReport::default());
        };
        let report = replay_records(log, window, |record| match replay.apply_patiently(record) {
            Err(PosixError::NoSuchZnode { .. }) if record.is_out_of_order() => {
                Err(RecordFailure::Gone)
            }
            Err(error) if is_final(&error) => Err(RecordFailure::Final(error)),
            applied => Ok(applied?),
        })?;
        replay.clear_tails()?;
        Ok(report)
    }
}

impl FileSystem {
    /// Does what a record of another file system says that was the same before, as replays do.
    ///
    /// # Errors
    /// If the record does not fit, or the pool cannot be written.
    pub fn repeat(&self, record: &Record<'_>) -> Result<(), PosixError> {
        let dataset = self.dataset()?;
        let clock = ReplayClock::new(dataset.env(), dataset.env().wall_clock());
        let replay = LogReplay::new(self, clock, None);
        replay.apply(record)?;
        replay.clear_tails()
    }
}

impl<'a> LogReplay<'a> {
    fn new(
        files: &'a FileSystem,
        clock: Arc<ReplayClock>,
        header: Option<&'a IntentLogHeader>,
    ) -> Self {
        Self {
            files,
            clock,
            header,
            sequence: AtomicU64::new(0),
            tails: Mutex::default(),
            domains: RefCell::new(files.domains().clone()),
        }
    }

    /// Whether nothing of what is done will be written.
    fn is_in_memory(&self) -> bool {
        let dataset = self.files.dataset();
        dataset.is_ok_and(|dataset| dataset.is_in_memory())
    }

    /// Applies a record; if it fails, once more after a sync, which frees what may block it.
    fn apply_patiently(&self, record: &Record<'_>) -> Result<(), PosixError> {
        match self.apply(record) {
            Err(error) if is_final(&error) && !record.is_out_of_order() => {
                self.files.sync()?;
                self.apply(record)
            }
            result => result,
        }
    }

    fn apply(&self, record: &Record<'_>) -> Result<(), PosixError> {
        self.sequence.store(record.sequence, Ordering::Relaxed);
        self.advance_clock(record);
        let folds = record.case_insensitive;
        match &record.body {
            RecordBody::Create(create) => self.create(record, create),
            RecordBody::Remove { directory, name } => self.remove(*directory, name, folds),
            RecordBody::Link {
                directory,
                object,
                name,
            } => self.link(*directory, *object, name, folds),
            RecordBody::Rename { .. } => self.rename(record),
            RecordBody::Write {
                object,
                offset,
                length,
                data,
            } => self.write(*object, *offset, *length, data),
            RecordBody::CloneRange {
                object,
                offset,
                length,
                block_size,
                pointers,
            } => self.clone_range(*object, (*offset, *length), *block_size, pointers),
            RecordBody::Truncate {
                object,
                offset,
                length,
            } => self.free_range(*object, *offset, *length),
            RecordBody::SetAttributes(set) => self.set_attributes(set),
            RecordBody::Acl {
                object,
                acl,
                is_old,
                ..
            } => self.set_acl(*object, acl, *is_old),
            RecordBody::SetXattr {
                object,
                name,
                value,
            } => self.set_xattr(*object, name, *value),
        }
    }

    /// No time goes back: what a record changes was last changed before it.
    fn advance_clock(&self, record: &Record<'_>) {
        let object = match &record.body {
            RecordBody::Create(create) => create.directory,
            RecordBody::Remove { directory, .. } | RecordBody::Link { directory, .. } => *directory,
            RecordBody::Rename {
                source_directory, ..
            } => *source_directory,
            RecordBody::SetAttributes(set) => set.object,
            RecordBody::Write { object, .. }
            | RecordBody::CloneRange { object, .. }
            | RecordBody::Truncate { object, .. }
            | RecordBody::Acl { object, .. }
            | RecordBody::SetXattr { object, .. } => *object,
        };
        if let Ok(changed) = self.files.znode(object) {
            self.clock.follow(changed.attributes().changed);
        }
    }

    /// Begins a transaction that may make about `bytes` dirty.
    fn begin(&self, bytes: u64) -> Result<Change<'_>, PosixError> {
        self.files.begin_freeing(bytes)
    }

    /// Notes with the transaction that the record is applied.
    fn note(&self, tx: &Change<'_>) -> Result<(), PosixError> {
        let Some(header) = self.header else {
            tx.keep();
            return Ok(());
        };
        let header = IntentLogHeader {
            replay_sequence: self.sequence.load(Ordering::Relaxed),
            ..header.clone()
        };
        let set = self.files.set();
        set.set_intent_log_header(tx, header.encode())?;
        tx.keep();
        Ok(())
    }

    /// An error about the record being applied.
    fn bad(&self, problem: &'static str) -> PosixError {
        PosixError::Replay {
            sequence: self.sequence.load(Ordering::Relaxed),
            problem,
        }
    }

    /// A block of data reaches beyond the end of this file.
    fn remember_tail(&self, file: ObjectId) {
        let mut tails = self.tails.lock();
        if tails.len() < TAILS_MAX {
            tails.insert(file);
        }
    }

    /// Clears what lies behind the ends of files: it was written, but is not part of any file.
    fn clear_tails(&self) -> Result<(), PosixError> {
        let mut tails = self.tails.lock();
        for id in std::mem::take(&mut *tails) {
            let file = match self.files.znode(id) {
                Err(PosixError::NoSuchZnode { .. }) => continue,
                file => file?,
            };
            let tx = self.begin(0)?;
            let object = self.files.set().object(id)?;
            object.free_range(&tx, file.attributes().size, u64::MAX)?;
            tx.keep();
        }
        Ok(())
    }
}

/// Whether an error says that a record does not fit the file system, so that trying again later
/// would not help.
fn is_final(error: &PosixError) -> bool {
    match error {
        PosixError::Dmu(error) => matches!(
            error,
            DmuError::BadChange { .. } | DmuError::EntryExists { .. } | DmuError::ZapFull { .. }
        ),
        PosixError::IntentLog(_)
        | PosixError::ReplayMemory(_)
        | PosixError::KeyNotLoaded { .. }
        | PosixError::ReadOnly
        | PosixError::NotSupported => false,
        _ => true,
    }
}
