//! The jobs that rebuild, one for each top-level vdev.

use super::record::{RebuildState, Record};
use crate::devices::{Plan, carry_out, detach_replaced};
use crate::pool::Pool;
use crate::scan::{ScanRequest, Scans, begin_scan};
use crate::sync::{Actor, Syncer, log_event};
use cenote_base::rt;
use cenote_base::rt::job::{Control, Next, Work, guarded};
use cenote_base::{Guid, MemoryBudget, ObjectId, Txg, VdevId, settings};
use cenote_dsl::DslError;
use cenote_dsl::write::{SyncContext, SyncTask};
use cenote_io::IoContext;
use cenote_ondisk::{VdevConfig, features};
use cenote_vdev::{ResilverTarget, Shape, TxgSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Pieces that are on their way at once: one is read while another is written.
const COPIERS: usize = 4;
/// How long a job waits before it tries again what could not be read.
const PAUSE: Duration = Duration::from_secs(1);
/// Times that a metaslab is copied, if there was no other room for what was allocated.
const ATTEMPTS_MAX: u32 = 5;

/// A top-level vdev as the configuration has it, and its leaves that are being rebuilt.
struct Top {
    id: VdevId,
    guid: Guid,
    zap: ObjectId,
    leaves: Vec<Guid>,
}

fn top_of(config: &VdevConfig) -> Option<Top> {
    let leaves = config.leaves().filter(|leaf| leaf.rebuild_txg.is_some());
    Some(Top {
        id: config.id?,
        guid: config.guid,
        zap: config.top_zap?,
        leaves: leaves.map(|leaf| leaf.guid).collect(),
    })
}

/// How a step of a rebuild ended.
enum Progress {
    Done,
    /// The pool is being let go.
    Stopped,
    /// Other leaves are to be rebuilt than were.
    Changed,
    /// It cannot be relied on.
    Failed,
}

struct Worker {
    /// The pool may go away without a word.
    syncer: Weak<Syncer>,
    scans: Arc<Scans>,
    buffers: Arc<MemoryBudget>,
    vdev: VdevId,
}

impl Work for Worker {
    /// Copies all that is to be copied now, until the pool says that no rebuild is under way.
    fn step(&mut self, control: &Control) -> Next {
        let Some(syncer) = self.syncer.upgrade() else {
            return Next::Done;
        };
        let Some(top) = self.top(&syncer) else {
            return Next::Done;
        };
        let Ok(record) = Record::read(&syncer.mos, top.zap) else {
            return Next::After(PAUSE);
        };
        if record.state != RebuildState::Active {
            return Next::Done;
        }
        let txg = Txg(record.max_txg);
        let targets = syncer.vdevs.shape().rebuild_targets(&top.leaves, txg);
        let mut rebuild = Rebuild {
            worker: self,
            control,
            syncer: &syncer,
            top,
            record,
            targets,
        };
        let progress = rebuild.run();
        syncer.space.avoid(self.vdev, None);
        let is_complete = match progress {
            Progress::Stopped => return Next::Done,
            Progress::Changed => return Next::Now,
            Progress::Done => true,
            Progress::Failed => false,
        };
        match rebuild.end(is_complete) {
            true => Next::Now,
            false => Next::Done,
        }
    }
}

impl Worker {
    fn top(&self, syncer: &Syncer) -> Option<Top> {
        top_of(syncer.config().top_mut(self.vdev)?)
    }
}

struct Rebuild<'a> {
    worker: &'a Worker,
    control: &'a Control,
    syncer: &'a Arc<Syncer>,
    top: Top,
    record: Record,
    targets: Vec<ResilverTarget>,
}

impl Rebuild<'_> {
    /// Copies all metaslabs behind the place where the record is.
    fn run(&mut self) -> Progress {
        let figures = self.syncer.space.figures();
        let space = figures.get(&self.top.id).copied().unwrap_or_default();
        self.record.estimated = space.allocated;
        // A leaf that misses more than at the begin of the rebuild was away for a part of it.
        let later = |target: &ResilverTarget| target.missed != target.txgs;
        let is_resumed = self.record.last_offset > 0;
        if self.top.leaves.is_empty() || is_resumed && self.targets.iter().any(later) {
            return Progress::Failed;
        }
        let metaslabs = self.syncer.space.metaslabs_of(self.top.id);
        for (index, (range, _)) in metaslabs.iter().enumerate() {
            if range.end <= self.record.last_offset {
                continue;
            }
            match self.metaslab(index) {
                Progress::Done => self.record.last_offset = range.end,
                other => return other,
            }
        }
        Progress::Done
    }

    /// Copies one metaslab.
    fn metaslab(&mut self, index: usize) -> Progress {
        for _ in 0..ATTEMPTS_MAX {
            // An import trusts the record: what it lists as copied must be on the target.
            let shape = self.syncer.vdevs.shape();
            if !self.targets.iter().all(|target| shape.is_reached(target)) {
                return Progress::Failed;
            }
            self.syncer.space.avoid(self.top.id, Some(index));
            // When this is on disk, so is all that was being allocated here.
            let noted = self.syncer.run_task(StoreRecord {
                syncer: Arc::clone(self.syncer),
                top: self.top.guid,
                record: self.record,
            });
            if self.control.is_interrupted() || noted.is_err() {
                return Progress::Stopped;
            }
            match self.worker.top(self.syncer) {
                None => return Progress::Stopped,
                Some(now) if now.leaves != self.top.leaves => return Progress::Changed,
                Some(_) => {}
            }
            self.syncer.space.take_avoided_used(self.top.id);
            let Some(ranges) = self.syncer.space.allocated_ranges(self.top.id, index) else {
                return Progress::Failed;
            };
            match self.copy(&ranges) {
                Progress::Done => {}
                other => return other,
            }
            if !self.syncer.space.take_avoided_used(self.top.id) {
                return Progress::Done;
            }
        }
        Progress::Failed
    }

    /// A source turned out to lack something while it was read from: whatever was written until
    /// now, the targets may have got old bytes for it.
    fn note_spoilt(&self, shape: &Shape) {
        let last = self.syncer.gate.open_txg();
        let all = TxgSet::from_ranges([Txg(0)..Txg(last.0.saturating_add(1))]);
        for leaf in &self.top.leaves {
            shape.add_missed(*leaf, &all);
        }
    }

    fn copy(&mut self, ranges: &[Range<u64>]) -> Progress {
        let shape = self.syncer.vdevs.shape();
        let (vdev, leaves) = (self.top.id, &self.top.leaves);
        let first = self.targets.iter().find_map(|target| target.txgs.bounds());
        let Some(missed) = first.map(|bounds| bounds.start) else {
            return Progress::Done;
        };
        let began = self.syncer.env.monotonic();
        let pieces = ranges
            .iter()
            .flat_map(|range| shape.rebuild_pieces(vdev, range));
        let pieces: Vec<Range<u64>> = pieces.collect();
        let (next, bytes) = (AtomicUsize::new(0), AtomicU64::new(0));
        let has_failed = AtomicBool::new(false);
        let copier = || {
            while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                if has_failed.load(Ordering::Acquire) || self.control.is_interrupted() {
                    return;
                }
                // Old bytes would be written over what the targets got since they came.
                let is_doubtful = || shape.has_doubtful_source(vdev, leaves);
                if is_doubtful() {
                    has_failed.store(true, Ordering::Release);
                    return;
                }
                let copied = shape.rebuild(vdev, piece.clone(), missed, leaves, &IoContext::SCRUB);
                if is_doubtful() {
                    self.note_spoilt(&shape);
                    has_failed.store(true, Ordering::Release);
                }
                match copied {
                    Ok(read) => drop(bytes.fetch_add(read, Ordering::Relaxed)),
                    Err(_) => has_failed.store(true, Ordering::Release),
                }
            }
        };
        rt::scope(|scope| {
            for _ in 1..COPIERS {
                scope.spawn(copier);
            }
            copier();
        });
        let covered: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        let elapsed = self.syncer.env.monotonic().saturating_sub(began);
        self.record.elapsed_ms += u64::try_from(elapsed.as_millis()).unwrap_or(0);
        self.record.scanned += covered;
        self.record.issued += covered;
        self.record.rebuilt += bytes.into_inner();
        match (has_failed.into_inner(), self.control.is_interrupted()) {
            (true, _) => Progress::Failed,
            (false, true) => Progress::Stopped,
            (false, false) => Progress::Done,
        }
    }

    /// Records the end and starts a scan: a scrub, because nothing was verified, or the resilver
    /// that it gives way to. Returns whether the rebuild restarted instead, with another leaf.
    fn end(self, is_complete: bool) -> bool {
        let (worker, syncer) = (self.worker, Arc::clone(self.syncer));
        let ended = syncer.run_task(End {
            syncer: Arc::clone(&syncer),
            top: self.top,
            record: self.record,
            targets: self.targets,
            is_complete,
            has_begun_anew: false,
        });
        let Ok(ended) = ended else { return false };
        let follows = match ended.is_complete {
            _ if ended.has_begun_anew => return true,
            true if settings::REBUILD_SCRUB.get() == 0 => return false,
            true => ScanRequest::Scrub {
                since: Txg(0),
                until: None,
            },
            false => ScanRequest::Resilver,
        };
        // Errors are reported elsewhere: another running scan, or a pool that takes no changes.
        let _ = begin_scan(&syncer, &worker.scans, &worker.buffers, follows);
        false
    }
}

/// Stores how far a rebuild is.
struct StoreRecord {
    syncer: Arc<Syncer>,
    top: Guid,
    record: Record,
}

impl SyncTask for StoreRecord {
    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let zap = self.syncer.config().top_zap(self.top);
        // A log device may have been removed meanwhile.
        let Some(zap) = zap else { return Ok(()) };
        let now = Record::read(context.mos(), zap)?;
        // If another leaf was added, the rebuild was restarted.
        match now.state == RebuildState::Active && now.is_same(&self.record) {
            true => self.record.store(context, zap),
            false => Ok(()),
        }
    }
}

/// The end of a rebuild.
struct End {
    syncer: Arc<Syncer>,
    top: Top,
    record: Record,
    targets: Vec<ResilverTarget>,
    is_complete: bool,
    has_begun_anew: bool,
}

impl SyncTask for End {
    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let syncer = Arc::clone(&self.syncer);
        let zap = syncer.config().top_zap(self.top.guid);
        let Some(zap) = zap else { return Ok(()) };
        let now = Record::read(context.mos(), zap)?;
        let is_active = now.state == RebuildState::Active;
        if is_active && !now.is_same(&self.record) {
            self.has_begun_anew = true;
            return Ok(());
        }
        let shape = syncer.vdevs.shape();
        // Of a device that does not take its flush nothing is known: it misses what it missed.
        self.is_complete = self.is_complete && shape.flush().is_ok();
        if self.is_complete {
            self.is_complete = shape.end_rebuild(&self.targets).is_empty();
        }
        let root = syncer.config().config.vdev_tree.clone();
        let Some(mut root) = root else { return Ok(()) };
        let mut stack: Vec<&mut VdevConfig> = root.children.iter_mut().collect();
        while let Some(vdev) = stack.pop() {
            if self.top.leaves.contains(&vdev.guid) {
                let since = vdev.rebuild_txg.take();
                vdev.resilver_txg = since.filter(|_| !self.is_complete);
            }
            stack.extend(vdev.children.iter_mut());
        }
        let plan = Plan::new(root);
        carry_out(context, &syncer, plan, &Actor::default()).map_err(|error| {
            let reason = error.to_string();
            DslError::Format { reason }
        })?;
        if !is_active {
            return detach_replaced(context, &syncer);
        }
        self.record.state = match self.is_complete {
            true => RebuildState::Complete,
            false => RebuildState::Canceled,
        };
        self.record.end_time = context.seconds();
        self.record.store(context, zap)?;
        context.feature_changed(features::DEVICE_REBUILD, -1)?;
        let word = match self.is_complete {
            true => "complete",
            false => "canceled",
        };
        let (id, guid) = (self.top.id.0, self.top.guid.0);
        let detail = format!("vdev_id={id} vdev_guid={guid} {word}");
        log_event(context, &Actor::default(), "rebuild", &detail)?;
        detach_replaced(context, &syncer)
    }
}

impl Pool {
    /// Starts threads that resume the active rebuilds of the pool.
    pub(crate) fn resume_rebuilds(&self) {
        let Some(syncer) = self.syncer().filter(|_| self.options().scans) else {
            return;
        };
        for top in &self.vdev_tree().children {
            let Some(top) = top_of(top) else { continue };
            let record = Record::read(&syncer.mos, top.zap).unwrap_or_default();
            if record.state == RebuildState::Active {
                self.start_rebuild(syncer, top.id);
            } else if !top.leaves.is_empty() {
                // No rebuild is active for them, so a resilver is due.
                let ended = syncer.run_task(End {
                    syncer: Arc::clone(syncer),
                    top,
                    record,
                    targets: Vec::new(),
                    is_complete: false,
                    has_begun_anew: false,
                });
                // A pool that takes no changes reports that elsewhere.
                drop(ended);
            }
        }
    }

    fn start_rebuild(&self, syncer: &Arc<Syncer>, vdev: VdevId) {
        let worker = Worker {
            syncer: Arc::downgrade(syncer),
            scans: Arc::clone(self.scans()),
            buffers: Arc::clone(&self.options().buffers.scans),
            vdev,
        };
        if let Some(job) = self.rebuilds().job(vdev) {
            // Without a thread it stays as it is, for the next import.
            let _ = job.start("vdev_rebuild", guarded(worker, syncer.guard("a rebuild")));
        }
    }
}
