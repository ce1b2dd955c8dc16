//! The state of a scan in the pool, in OpenZFS's form (format/1b 8), and what changes it.
//!
//! All changes happen in transaction groups. Destroying datasets and creating snapshots changes the
//! same words there, so each sees the other's changes.

use super::after::{ResilverEnd, resilver_ended};
use super::model::{ScanError, ScanRequest};
use super::plan::{self, META, Planned};
use super::state::{Progress, Scans};
use crate::sync::{Actor, Syncer, log_event};
use cenote_base::{ObjectId, Txg};
use cenote_dmu::DmuError;
use cenote_dmu::zap::ZapValue;
use cenote_dsl::write::{ErrorLog, SyncContext, SyncTask};
use cenote_dsl::{DslError, ErrorEntry};
use cenote_ondisk::ObjectType;
use cenote_ondisk::object_directory::{OBJECT_DIRECTORY, keys};
use cenote_ondisk::resilver_targets::{self, RESILVER_TARGETS};
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

/// Entry of the object directory while a scrub is due after the resilver that is under way: 1.
pub(super) const SCRUB_FOLLOWS: &str = "org.cenote:scrub_follows";

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
    /// Some dataset could not be found that is to be visited.
    lacks_datasets: bool,
}

impl<'a, 'c> Words<'a, 'c> {
    fn running(context: &'a SyncContext<'c>) -> Result<Option<Self>, DslError> {
        let scan = plan::running(context.mos())?;
        Ok(scan.map(|scan| Self {
            context,
            scan,
            lacks_datasets: false,
        }))
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

    /// There is no walk over the tables of deduplicated blocks here. OpenZFS begins with one, and
    /// refuses a place in a dataset before it has ended: so it counts as done, for the class of
    /// which there are no entries any more, and no block is left out on its account.
    fn leave_tables(&mut self) {
        if self.scan.ddt_position[0] <= self.scan.ddt_class_max {
            self.scan.ddt_class_max = 0;
            self.scan.ddt_position = [1, 0, 0, 0];
        }
    }

    /// A dataset was walked to its end.
    fn leave(&mut self, dataset: ObjectId) -> Result<(), DmuError> {
        let is_current = self.scan.position[0] == dataset.0;
        if self.take(dataset)?.is_none() {
            // It was replaced by another dataset, which is walked from its start.
            return Ok(());
        }
        if is_current {
            self.scan.flags &= !FLAG_VISIT_DATASET_AGAIN;
        }
        let (next, are_all) = match dataset {
            META => plan::firsts(self.context.mos())?,
            dataset => plan::successors(self.context.mos(), dataset)?,
        };
        self.lacks_datasets |= !are_all;
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

    /// Whether nothing is recorded as walked.
    fn is_young(&self) -> bool {
        self.scan.examined == 0 && self.scan.position == [0; 4]
    }

    /// Notes which devices got all that this scan came to so far, for the next import.
    fn store_targets(&self, shape: &Shape, targets: &[ResilverTarget]) -> Result<(), DslError> {
        let served = shape.served(targets);
        let served = served.map(|(leaf, missed)| (leaf, missed.ranges().collect()));
        let words = resilver_targets::encode(&self.scan, served);
        let directory = self.context.mos().zap(OBJECT_DIRECTORY)?;
        let value = ZapValue::from_u64s(&words);
        Ok(directory.update(self.context.tx, RESILVER_TARGETS.as_bytes(), &value)?)
    }

    fn is_over(&self) -> Result<bool, DmuError> {
        let is_nowhere = self.scan.position[0] == SCAN_NOWHERE[0];
        Ok(is_nowhere && plan::queued(self.context.mos(), &self.scan)?.is_empty())
    }

    /// The next scrub with `-C` begins after this one, unless older groups were left out.
    fn note_scrubbed(&self) -> Result<(), DslError> {
        let last = self.context.dsl.last_scrubbed_txg()?;
        if self.scan.txg_min > last {
            return Ok(());
        }
        let Txg(last) = last.max(self.scan.txg_max);
        self.context
            .set_directory_number(keys::LAST_SCRUBBED_TXG, last)
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
            self.note_scrubbed()?;
        }
        if state == ScanState::Finished && log_of(&self.scan) == ErrorLog::Scrub {
            self.context.rotate_errors()?;
        }
        self.store()?;
        self.context.remove_directory_entry(RESILVER_TARGETS)?;
        let word = match state {
            ScanState::Finished => "scan done",
            _ => "scan aborted",
        };
        let detail = format!("errors={}", self.scan.errors);
        log_event(self.context, actor, word, &detail)
    }
}

/// The system that has the pool, for the history.
fn host(syncer: &Syncer) -> Actor {
    let host = syncer.config().config.hostname.clone();
    Actor {
        user: 0,
        host: host.unwrap_or_default(),
    }
}

/// What a scan that begins looks at: the groups, each end included, and the leaves that it is for.
struct Scope {
    txg_min: Txg,
    txg_max: Txg,
    targets: Vec<ResilverTarget>,
}

impl Scope {
    /// Decides it, for a scan that begins with the group that is being written; `None` if nothing
    /// is to be done.
    fn new(context: &SyncContext<'_>, shape: &Shape, request: ScanRequest) -> Option<Self> {
        let now = context.txg();
        match request {
            ScanRequest::Scrub { since, until } => Some(Self {
                // 0 says that a scrub is complete. No block is born in group 1.
                txg_min: since.max(Txg(until.is_some().into())),
                txg_max: until.map_or(now, |until| until.min(now)),
                // None: but what it cannot repair from now on is missing.
                targets: shape.begin_resilver(Txg(0)),
            }),
            ScanRequest::Resilver => {
                let targets = shape.begin_resilver(Txg(now.0.saturating_add(1)));
                let bounds = targets.iter().filter_map(|target| target.txgs.bounds());
                let bounds =
                    bounds.reduce(|all, one| all.start.min(one.start)..all.end.max(one.end))?;
                // What a removal of a vdev copied in one of these groups may be as old as the pool.
                let copied = shape.copied_in();
                let is_older = targets.iter().any(|target| target.txgs.intersects(&copied));
                Some(Self {
                    txg_min: match is_older {
                        true => Txg(0),
                        false => Txg(bounds.start.0.saturating_sub(1)),
                    },
                    txg_max: Txg(bounds.end.0.saturating_sub(1)),
                    targets,
                })
            }
        }
    }
}

/// Begins a scan with the group that is being written. All that says what it is for is decided
/// here, once. Whether there is something to do.
fn begin(
    context: &SyncContext<'_>,
    (syncer, scans): (&Syncer, &Scans),
    request: ScanRequest,
) -> Result<bool, DslError> {
    let shape = syncer.vdevs.shape();
    let Some(scope) = Scope::new(context, &shape, request) else {
        return Ok(false);
    };
    context.clear_errors(ErrorLog::Scrub)?;
    let figures = syncer.space.figures();
    let (function, number) = match request {
        ScanRequest::Scrub { .. } => (ScanFunction::Scrub, 1),
        ScanRequest::Resilver => (ScanFunction::Resilver, 2),
    };
    let Scope {
        txg_min,
        txg_max,
        targets,
    } = scope;
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
        lacks_datasets: false,
    };
    words.store()?;
    match function == ScanFunction::Resilver {
        true => words.store_targets(&shape, &targets)?,
        false => context.remove_directory_entry(SCRUB_FOLLOWS)?,
    }
    scans
        .live()
        .begin(context.txg(), context.seconds(), targets);
    let (min, max) = (txg_min.0, txg_max.0);
    let detail = format!("func={number} mintxg={min} maxtxg={max}");
    log_event(context, &host(syncer), "scan setup", &detail)?;
    Ok(true)
}

/// Begins a scan, or resumes a paused one.
pub(super) struct Begin {
    pub syncer: Arc<Syncer>,
    pub scans: Arc<Scans>,
    pub request: ScanRequest,
    /// A running resilver is unreliable.
    pub is_restart: bool,
    /// A scrub that finds a resilver under way is due afterwards.
    pub waits: bool,
    /// The result.
    pub outcome: Result<(), ScanError>,
}

impl Begin {
    pub fn new(syncer: &Arc<Syncer>, scans: &Arc<Scans>, request: ScanRequest) -> Self {
        Self {
            syncer: Arc::clone(syncer),
            scans: Arc::clone(scans),
            request,
            is_restart: false,
            waits: false,
            outcome: Ok(()),
        }
    }

    /// A resilver is to begin while a scan is under way; whether it does.
    fn gives_way(&self, words: &mut Words<'_, '_>) -> Result<bool, DslError> {
        let actor = host(&self.syncer);
        let shape = self.syncer.vdevs.shape();
        if words.scan.function != ScanFunction::Resilver {
            // What devices miss goes first.
            let is_needed = shape.is_resilver_needed().is_some();
            if is_needed {
                words.end(ScanState::Canceled, &actor)?;
            }
            return Ok(is_needed);
        }
        let is_wider = || shape.is_another_due(&self.scans.live().targets);
        let is_restart = self.is_restart || words.is_young() && is_wider();
        match is_restart {
            true => words.end(ScanState::Canceled, &actor)?,
            false => self.scans.live().again = true,
        }
        Ok(is_restart)
    }
}

impl SyncTask for Begin {
    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let is_scrub = matches!(self.request, ScanRequest::Scrub { .. });
        if let Some(mut words) = Words::running(context)? {
            let is_paused = words.scan.flags & FLAG_PAUSED != 0;
            match words.scan.function {
                _ if !is_scrub => {
                    if !self.gives_way(&mut words)? {
                        return Ok(());
                    }
                }
                ScanFunction::Resilver if self.waits => {
                    self.scans.live().scrub_follows = true;
                    context.set_directory_number(SCRUB_FOLLOWS, 1)?;
                    return Ok(());
                }
                ScanFunction::Resilver => {
                    self.outcome = Err(ScanError::Resilvering);
                    return Ok(());
                }
                _ if is_paused => {
                    words.scan.flags &= !FLAG_PAUSED;
                    let mut live = self.scans.live();
                    if live.pass_start == 0 {
                        live.pass_start = context.seconds();
                    }
                    drop(live);
                    return words.store();
                }
                _ => {
                    self.outcome = Err(ScanError::Scrubbing);
                    return Ok(());
                }
            }
        }
        begin(context, (&self.syncer, &self.scans), self.request).map(drop)
    }
}

/// Pauses or ends a scrub.
pub(super) struct Interrupt {
    pub syncer: Arc<Syncer>,
    /// It is to be resumed later.
    pub is_pause: bool,
    /// The result.
    pub outcome: Result<(), ScanError>,
}

impl SyncTask for Interrupt {
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
    pub scans: Arc<Scans>,
    /// The scan that it was for, as counted here and as it stood on disk.
    pub generation: u64,
    pub of: Scan,
    /// Walked to their ends, in this order.
    pub done: Vec<ObjectId>,
    /// Where it stopped: object, level, block.
    pub at: Option<(ObjectId, [u64; 3])>,
    pub progress: Progress,
    /// What it found lost.
    pub lost: BTreeSet<ErrorEntry>,
    /// Blocks born up to this group may not have been met.
    pub unwalked: Option<Txg>,
    /// Whether a scan has more turns, this one or the next.
    pub goes_on: bool,
}

impl Turn {
    /// Whether the scan is still the one that this turn was for.
    fn is_same(&self, scan: &Scan) -> bool {
        self.scans.live().generation == self.generation
            && scan.function == self.of.function
            && scan.start_time == self.of.start_time
            && scan.txg_max == self.of.txg_max
    }

    /// What devices were given is theirs for good. Whether another resilver is due.
    fn end_resilver(
        &self,
        context: &SyncContext<'_>,
        targets: &[ResilverTarget],
    ) -> Result<bool, DslError> {
        let shape: Arc<Shape> = self.syncer.vdevs.shape();
        // Of a device that does not take its flush nothing is known: it misses what it missed.
        let is_flushed = shape.flush().is_ok();
        let is_another_due = self.scans.live().again || shape.is_another_due(targets);
        let missed_out = match is_flushed {
            true => shape.end_resilver(targets),
            false => targets.iter().map(|target| target.leaf).collect(),
        };
        let reached = targets.iter().map(|target| target.leaf);
        let end = ResilverEnd {
            leaves: reached.filter(|leaf| !missed_out.contains(leaf)).collect(),
        };
        resilver_ended(context, &self.syncer, &end)?;
        Ok(is_another_due)
    }

    /// Begins the scan that is due after a resilver, in the same group, so that there is no state
    /// in between.
    fn follow(&self, context: &SyncContext<'_>, is_another_due: bool) -> Result<bool, DslError> {
        let own = (&*self.syncer, &*self.scans);
        if is_another_due && begin(context, own, ScanRequest::Resilver)? {
            return Ok(true);
        }
        if !std::mem::take(&mut self.scans.live().scrub_follows) {
            return Ok(false);
        }
        let (since, until) = (Txg(0), None);
        begin(context, own, ScanRequest::Scrub { since, until })
    }
}

impl SyncTask for Turn {
    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let Some(mut words) = Words::running(context)? else {
            return Ok(());
        };
        if !self.is_same(&words.scan) {
            self.goes_on = words.scan.is_running();
            return Ok(());
        }
        let targets = {
            let mut live = self.scans.live();
            live.fresh = Default::default();
            live.stored.add(self.progress);
            live.targets.clone()
        };
        // What the disk has of them may be any number.
        let (scan, progress) = (&mut words.scan, &self.progress);
        scan.examined = scan.examined.saturating_add(progress.examined);
        scan.processed = scan.processed.saturating_add(progress.processed);
        scan.errors = scan.errors.saturating_add(progress.errors);
        words.leave_tables();
        context.add_errors(log_of(&words.scan), &self.lost)?;
        for dataset in std::mem::take(&mut self.done) {
            words.leave(dataset)?;
        }
        if let Some((dataset, place)) = self.at {
            words.enter(dataset, place)?;
        }
        let shape = self.syncer.vdevs.shape();
        let lacking = words.lacks_datasets.then_some(words.scan.txg_max);
        // The scan was not complete, so it must not end without errors.
        words.scan.errors = words
            .scan
            .errors
            .saturating_add(u64::from(words.lacks_datasets));
        if let Some(last) = self.unwalked.max(lacking) {
            shape.note_unwalked(&targets, last);
        }
        shape.keep_unrepaired();
        // A scan that was paused during its last turn ends when it is resumed.
        if !words.is_over()? || words.scan.flags & FLAG_PAUSED != 0 {
            self.goes_on = words.scan.is_running();
            if words.scan.function == ScanFunction::Resilver {
                words.store_targets(&shape, &targets)?;
            }
            return words.store();
        }
        let is_another_due = match words.scan.function {
            ScanFunction::Resilver => self.end_resilver(context, &targets)?,
            _ => {
                shape.end_resilver(&[]);
                false
            }
        };
        words.end(ScanState::Finished, &host(&self.syncer))?;
        self.scans.live().targets.clear();
        if words.scan.function == ScanFunction::Resilver {
            self.goes_on = self.follow(context, is_another_due)?;
        }
        Ok(())
    }
}
