//! Going through the log that a crash left.

use cenote_intent_log::{IntentLog, IntentLogError, ReplayWindow};
use cenote_ondisk::intent_log::record::Record;

/// What became of a record that could not be applied.
#[derive(Debug)]
pub enum RecordFailure<E> {
    /// Its object was freed, which is normal for records that may be logged out of order.
    Gone,
    /// It does not fit the dataset: the replay ends before it, as in OpenZFS.
    Final(E),
    /// Something is in the way. The replay can be tried again.
    Failed(E),
}

impl<E> From<E> for RecordFailure<E> {
    fn from(error: E) -> Self {
        Self::Failed(error)
    }
}

/// What a replay did.
#[derive(Debug)]
pub struct ReplayOutcome<E> {
    /// Records that were applied.
    pub applied: u64,
    /// Records whose object was freed.
    pub skipped: u64,
    /// The record at which the replay stopped, and why, if it did not reach the end.
    pub stopped: Option<(u64, E)>,
}

impl<E> Default for ReplayOutcome<E> {
    fn default() -> Self {
        Self {
            applied: 0,
            skipped: 0,
            stopped: None,
        }
    }
}

/// Applies the records of a log that are in `window`, in order.
///
/// # Errors
/// If the log cannot be read or is shorter than what was claimed, or a record failed.
pub fn replay_records<E: From<IntentLogError>>(
    log: &IntentLog,
    window: ReplayWindow,
    mut apply: impl FnMut(&Record<'_>) -> Result<(), RecordFailure<E>>,
) -> Result<ReplayOutcome<E>, E> {
    let mut outcome = ReplayOutcome::default();
    let mut chain = log.chain();
    for block in &mut chain {
        let block = block?;
        for record in block.records()? {
            let record = record.map_err(|source| block.bad_record(source))?;
            if !window.contains(record.txg, record.sequence) {
                continue;
            }
            match apply(&record) {
                Ok(()) => outcome.applied += 1,
                Err(RecordFailure::Gone) => outcome.skipped += 1,
                Err(RecordFailure::Final(error)) => {
                    outcome.stopped = Some((record.sequence, error));
                    return Ok(outcome);
                }
                Err(RecordFailure::Failed(error)) => return Err(error),
            }
        }
    }
    log.check_end(&chain)?;
    Ok(outcome)
}
