//! The state of a scan in the pool, in OpenZFS's form (format/1b 8), and what changes it.
//!
//! All of it happens in transaction groups: whoever destroys or snapshots datasets changes the
//! same words there, so that each sees what the other did.

use super::after::{ResilverEnd, resilver_ended};
use super::model::{ScanError, ScanRequest};
use super::plan::{self, META, Planned};
use super::state::Progress;
use crate::sync::{Actor, Syncer, log_event};
use cenote_base::{Guid, ObjectId, Txg};
use cenote_dmu::DmuError;
use cenote_dmu::zap::ZapValue;
use cenote_dsl::write::{ErrorLog, SyncContext, SyncTask};
use cenote_dsl::{DslError, ErrorEntry};
use cenote_ondisk::ObjectType;
use cenote_ondisk::object_directory::{OBJECT_DIRECTORY, keys};
use cenote_ondisk::scan::{
    FLAG_PAUSED, FLAG_VISIT_DATASET_AGAIN, SCAN_NOWHERE, Scan, ScanFunction, ScanState,
};
use cenote_vdev::{ResilverTarget, Shape};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a pool has that never was scanned.
const NEVER: Scan = Scan {
    function: ScanFunction::None,
    state: ScanState::None,
    queue: None,
    txg_min: Txg(0),
    txg_max: Txg(0),
    dataset_txg_min: Txg(0),
    dataset_txg_max: Txg(0),
    start_time: 0,
    end_time: 0,
    to_examine: 0,
    examined: 0,
    skipped: 0,
    processed: 0,
    errors: 0,
    ddt_class_max: 0,
    ddt_position: [0; 4],
    position: [0; 4],
    flags: 0,
};

/// A complete scrub is a new beginning of the error log; what others find is added to it.
fn log_of(scan: &Scan) -> ErrorLog {
    match scan.function == ScanFunction::Scrub && scan.txg_min == Txg(0) {
        true => ErrorLog::Scrub,
        false => ErrorLog::Last,
    }
}

fn queue_key(dataset: ObjectId) -> Vec<u8> {
    format!("{:x}", dataset.0).into_bytes()
}

/// The words of the scan, to be read and changed.
struct Words<'a, 'c> {
    context: &'a SyncContext<'c>,
    scan: Scan,
}

impl<'a, 'c> Words<'a, 'c> {
    fn running(context: &'a SyncContext<'c>) -> Result<Option<Self>, DslError> {
        let scan = plan::running(context.mos())?;
        Ok(scan.map(|scan| Self { context, scan }))
    }

    fn store(&self) -> Result<(), DslError> {
        let directory = self.context.mos().zap(OBJECT_DIRECTORY)?;
        let value = ZapValue::from_u64s(&self.scan.to_words());
        Ok(directory.update(self.context.tx, keys::SCAN.as_bytes(), &value)?)
    }

    fn enqueue(&self, planned: &[Planned]) -> Result<(), DmuError> {
        let Some(queue) = self.scan.queue.filter(|_| !planned.is_empty()) else {
            return Ok(());
        };
        let zap = self.context.mos().zap(queue)?;
        planned.iter().try_for_each(|next| {
            let value = ZapValue::from_u64(next.min.0);
            zap.update(self.context.tx, &queue_key(next.dataset), &value)
        })
    }

    /// Takes a dataset off the queue, or from the place where the scan is; `None` if it is in
    /// neither, and otherwise what its own blocks are younger than.
    fn take(&mut self, dataset: ObjectId) -> Result<Option<Txg>, DmuError> {
        if self.scan.position[0] == dataset.0 {
            self.scan.position = SCAN_NOWHERE;
            return Ok(Some(self.scan.dataset_txg_min));
        }
        let Some(queue) = self.scan.queue else {
            return Ok(None);
        };
        let zap = self.context.mos().zap(queue)?;
        let found = zap.lookup(&queue_key(dataset))?;
        let Some(min) = found.and_then(|value| value.as_u64()) else {
            return Ok(None);
        };
        zap.remove(self.context.tx, &queue_key(dataset))?;
        Ok(Some(Txg(min)))
    }

    /// A dataset was walked to its end.
    fn leave(&mut self, dataset: ObjectId) -> Result<(), DmuError> {
        let is_current = self.scan.position[0] == dataset.0;
        if self.take(dataset)?.is_none() {
            // Somebody put another in its place, which is walked anew.
            return Ok(());
        }
        if is_current {
            self.scan.flags &= !FLAG_VISIT_DATASET_AGAIN;
        }
        let next = match dataset {
            META => plan::firsts(self.context.mos())?,
            dataset => plan::successors(self.context.mos(), dataset)?,
        };
        self.enqueue(&next)
    }

    /// The walk is at a place in a dataset.
    fn enter(&mut self, dataset: ObjectId, place: [u64; 3]) -> Result<(), DmuError> {
        let is_current = self.scan.position[0] == dataset.0;
        if !is_current && self.scan.position != SCAN_NOWHERE {
            // The one that it was in before has another in its place.
            return Ok(());
        }
        let Some(min) = self.take(dataset)? else {
            return Ok(());
        };
        let [object, level, block] = place;
        self.scan.position = [dataset.0, object, level, block];
        if !is_current {
            let made = plan::dataset(self.context.mos(), dataset)?;
            let made = made.filter(|found| found.is_snapshot());
            let last = made.map_or(self.scan.txg_max, |found| found.creation_txg);
            self.scan.dataset_txg_min = min;
            self.scan.dataset_txg_max = self.scan.txg_max.min(last);
        }
        self.scan.flags &= !FLAG_VISIT_DATASET_AGAIN;
        Ok(())
    }

    fn is_over(&self) -> Result<bool, DmuError> {
        let is_nowhere = self.scan.position[0] == SCAN_NOWHERE[0];
        Ok(is_nowhere && plan::queued(self.context.mos(), &self.scan)?.is_empty())
    }

    /// The scan ends as `state` says.
    fn end(&mut self, state: ScanState, actor: &Actor) -> Result<(), DslError> {
        self.scan.state = state;
        self.scan.end_time = self.context.seconds();
        self.scan.flags = 0;
        self.scan.position = [0; 4];
        if let Some(queue) = self.scan.queue.take() {
            self.context.mos().free(self.context.tx, queue)?;
        }
        if state == ScanState::Finished && self.scan.function == ScanFunction::Scrub {
            let last = self.scan.txg_max.0;
            self.context
                .set_directory_number(keys::LAST_SCRUBBED_TXG, last)?;
        }
        if state == ScanState::Finished && log_of(&self.scan) == ErrorLog::Scrub {
            self.context.rotate_errors()?;
        }
        self.store()?;
        let word = match state {
            ScanState::Finished => "scan done",
            _ => "scan aborted",
        };
        let detail = format!("errors={}", self.scan.errors);
        log_event(self.context, actor, word, &detail)
    }
}

/// Who has the pool, for the history.
fn host(syncer: &Syncer) -> Actor {
    let host = syncer.config().config.hostname.clone();
    Actor {
        user: 0,
        host: host.unwrap_or_default(),
    }
}

/// Begins a scan, or goes on with one that is paused.
pub(super) struct Begin {
    pub syncer: Arc<Syncer>,
    pub request: ScanRequest,
    /// What came of it.
    pub outcome: Result<(), ScanError>,
}

impl Begin {
    /// The groups to look at, each end included, if anything is to be done.
    fn range(&self, context: &SyncContext<'_>) -> Option<(Txg, Txg)> {
        match self.request {
            ScanRequest::Scrub { since, until } => {
                let now = context.txg();
                Some((since, until.map_or(now, |until| until.min(now))))
            }
            ScanRequest::Resilver => {
                let needed = self.syncer.vdevs.shape().is_resilver_needed()?;
                let before = Txg(needed.start.0.saturating_sub(1));
                Some((before, Txg(needed.end.0 - 1).min(context.txg())))
            }
        }
    }
}

impl SyncTask for Begin {
    fn check(&mut self, _: &SyncContext<'_>) -> Result<(), DslError> {
        Ok(())
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let actor = host(&self.syncer);
        let is_scrub = matches!(self.request, ScanRequest::Scrub { .. });
        if let Some(mut words) = Words::running(context)? {
            let is_paused = words.scan.flags & FLAG_PAUSED != 0;
            match words.scan.function {
                ScanFunction::Resilver => {
                    self.outcome = Err(ScanError::Resilvering);
                    return Ok(());
                }
                _ if is_scrub && is_paused => {
                    words.scan.flags &= !FLAG_PAUSED;
                    return words.store();
                }
                _ if is_scrub => {
                    self.outcome = Err(ScanError::Scrubbing);
                    return Ok(());
                }
                // What devices miss goes first.
                _ => words.end(ScanState::Canceled, &actor)?,
            }
        }
        let Some((txg_min, txg_max)) = self.range(context) else {
            return Ok(());
        };
        context.clear_errors(ErrorLog::Scrub)?;
        let figures = self.syncer.space.figures();
        let function = match is_scrub {
            true => ScanFunction::Scrub,
            false => ScanFunction::Resilver,
        };
        let words = Words {
            context,
            scan: Scan {
                function,
                state: ScanState::Scanning,
                queue: Some(context.create_table(ObjectType::SCAN_QUEUE)?),
                txg_min,
                txg_max,
                dataset_txg_min: txg_min,
                dataset_txg_max: txg_max,
                start_time: context.seconds(),
                to_examine: figures.values().map(|space| space.allocated).sum(),
                ..NEVER
            },
        };
        words.store()?;
        let number = if is_scrub { 1 } else { 2 };
        let (min, max) = (txg_min.0, txg_max.0);
        let detail = format!("func={number} mintxg={min} maxtxg={max}");
        log_event(context, &actor, "scan setup", &detail)
    }
}

/// Pauses or ends a scrub.
pub(super) struct Interrupt {
    pub syncer: Arc<Syncer>,
    /// It is to go on later.
    pub is_pause: bool,
    /// What came of it.
    pub outcome: Result<(), ScanError>,
}

impl SyncTask for Interrupt {
    fn check(&mut self, _: &SyncContext<'_>) -> Result<(), DslError> {
        Ok(())
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let Some(mut words) = Words::running(context)? else {
            self.outcome = Err(ScanError::NotScrubbing);
            return Ok(());
        };
        if words.scan.function != ScanFunction::Scrub {
            self.outcome = Err(ScanError::Resilvering);
            return Ok(());
        }
        if !self.is_pause {
            return words.end(ScanState::Canceled, &host(&self.syncer));
        }
        if words.scan.flags & FLAG_PAUSED != 0 {
            self.outcome = Err(ScanError::Paused);
            return Ok(());
        }
        words.scan.flags |= FLAG_PAUSED;
        words.store()
    }
}

/// How far a turn came.
pub(super) struct Turn {
    pub syncer: Arc<Syncer>,
    /// The scan that it was for.
    pub of: Scan,
    /// Walked to their ends, in this order.
    pub done: Vec<ObjectId>,
    /// Where it stopped: object, level, block.
    pub at: Option<(ObjectId, [u64; 3])>,
    pub progress: Progress,
    /// What it found lost.
    pub lost: BTreeSet<ErrorEntry>,
    pub targets: Vec<ResilverTarget>,
    /// The scan as it is now; `None` if it is not under way any more.
    pub after: Option<Scan>,
    /// Leaves that were out of use meanwhile, and miss what they missed.
    pub missed_out: Vec<Guid>,
}

impl Turn {
    /// What devices were given is theirs for good.
    fn end_resilver(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let shape: Arc<Shape> = self.syncer.vdevs.shape();
        // Of a device that does not take its flush nothing is known: it misses what it missed.
        if shape.flush().is_ok() {
            self.missed_out = shape.end_resilver(&self.targets);
        }
        let reached = self.targets.iter().map(|target| target.leaf);
        let end = ResilverEnd {
            leaves: reached
                .filter(|leaf| !self.missed_out.contains(leaf))
                .collect(),
        };
        resilver_ended(context, &self.syncer, &end)
    }
}

impl SyncTask for Turn {
    fn check(&mut self, _: &SyncContext<'_>) -> Result<(), DslError> {
        Ok(())
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let Some(mut words) = Words::running(context)? else {
            return Ok(());
        };
        let is_same = words.scan.function == self.of.function
            && words.scan.start_time == self.of.start_time
            && words.scan.txg_max == self.of.txg_max;
        if !is_same {
            self.after = Some(words.scan);
            return Ok(());
        }
        words.scan.examined += self.progress.examined;
        words.scan.processed += self.progress.processed;
        words.scan.errors += self.progress.errors;
        context.add_errors(log_of(&words.scan), &self.lost)?;
        for dataset in std::mem::take(&mut self.done) {
            words.leave(dataset)?;
        }
        if let Some((dataset, place)) = self.at {
            words.enter(dataset, place)?;
        }
        if !words.is_over()? {
            self.after = Some(words.scan);
            return words.store();
        }
        if words.scan.function == ScanFunction::Resilver {
            self.end_resilver(context)?;
        }
        words.end(ScanState::Finished, &host(&self.syncer))
    }
}
