//! The job that scans: a turn is a step.

use super::logs::mend_logs;
use super::plan::{self, Plan};
use super::record::Turn;
use super::state::Scans;
use super::walk::{Due, LIMITS, Mender, Round, Walked, walk};
use crate::sync::{SyncError, Syncer};
use crate::view::Hold;
use cenote_base::rt::job::{Control, Next, Work, guarded};
use cenote_base::settings::SCAN_SUSPEND_PROGRESS;
use cenote_base::{BlockId, Bookmark, Level, MemoryBudget, ObjectId, ObjsetId};
use cenote_dmu::traverse::DiskOrder;
use cenote_dmu::{DmuError, ObjectSet};
use cenote_io::{IoContext, Workers};
use cenote_ondisk::scan::{Scan, ScanFunction};
use cenote_vdev::{ResilverTarget, Shape, TxgSet, VdevStatus};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long freed space is held back at a time.
const TURN: Duration = Duration::from_secs(4);
/// Threads that read and compare: devices serve a few of a scan's requests at a time, and a
/// processor compares faster than a device reads.
const WORKERS: usize = 8;
/// How often the job checks whether it may continue.
const SUSPENDED: Duration = Duration::from_millis(50);
/// How long the job waits before it tries again what could not be read or noted.
const PAUSE: Duration = Duration::from_secs(1);

/// What the job has.
pub(super) struct Worker {
    /// The pool may go away without a word.
    syncer: Weak<Syncer>,
    scans: Arc<Scans>,
    buffers: Arc<MemoryBudget>,
    /// Its own workers, so that other readers do not wait behind a scan's jobs. `None` before it
    /// works.
    workers: Option<Arc<Workers>>,
    /// The scan that was announced to the devices.
    announced: Option<u64>,
}

/// Why a turn failed.
enum Failure {
    /// The pool's metadata cannot be read.
    Read,
    /// The pool takes no changes.
    Stopped,
}

impl From<DmuError> for Failure {
    fn from(_: DmuError) -> Self {
        Self::Read
    }
}

impl From<SyncError> for Failure {
    fn from(_: SyncError) -> Self {
        Self::Stopped
    }
}

impl Worker {
    /// Starts the job for the active scan of the pool.
    pub fn start(
        syncer: &Arc<Syncer>,
        scans: &Arc<Scans>,
        buffers: &Arc<MemoryBudget>,
    ) -> std::io::Result<()> {
        let worker = Self {
            syncer: Arc::downgrade(syncer),
            scans: Arc::clone(scans),
            buffers: Arc::clone(buffers),
            workers: None,
            announced: None,
        };
        let guard = syncer.guard("a scan");
        scans.job.start("scan", guarded(worker, guard))
    }

    /// Runs one turn. Returns whether the scan has more turns.
    fn turn(&mut self, control: &Control, syncer: &Arc<Syncer>) -> Result<bool, Failure> {
        let hold = Hold::new(&syncer.space);
        let (generation, begun_in, targets) = {
            let live = self.scans.live();
            (live.generation, live.begun_in, live.targets.clone())
        };
        let uberblock = syncer.uberblock();
        if uberblock.txg < begun_in {
            // Not on disk yet; the caller that begins the scan starts the job afterwards.
            return Ok(false);
        }
        let cache = syncer.mos.cache().for_io(&IoContext::SCRUB);
        let mos = ObjectSet::open(cache, ObjsetId::MOS, uberblock.root, None)?;
        let Some(scan) = plan::running(&mos)?.filter(Scan::is_running) else {
            return Ok(false);
        };
        let due = match scan.function == ScanFunction::Resilver {
            false => Due::All(scan.txg_min, scan.txg_max),
            true => Due::Stale(all_txgs(&targets)),
        };
        if matches!(due, Due::All(..)) && self.announced.replace(generation) != Some(generation) {
            syncer.vdevs.shape().begin_verification();
        }
        let plan = plan::plan(&mos, &scan)?;
        let before = repaired_bytes(&syncer.vdevs.shape());
        let (order, mut walked) = self.walk(control, syncer, &plan, due.clone());
        let (done, at) = how_far(&plan, &order);
        let mender = self.mender(syncer, due);
        let is_told = || control.is_interrupted();
        if !mend_logs(&mos, done.iter().copied(), (&mender, &mut walked), is_told)? {
            // All of this turn is done again.
            return Err(Failure::Read);
        }
        let after = repaired_bytes(&syncer.vdevs.shape());
        let mut progress = walked.done;
        progress.processed = after.saturating_sub(before);
        drop(hold);
        let turn = syncer.run_task(Turn {
            syncer: Arc::clone(syncer),
            scans: Arc::clone(&self.scans),
            generation,
            of: scan,
            done,
            at,
            progress,
            lost: walked.lost,
            unwalked: walked.unwalked,
            goes_on: false,
        })?;
        Ok(turn.goes_on)
    }

    fn mender(&self, syncer: &Syncer, due: Due) -> Mender {
        Mender {
            pipeline: Arc::clone(&syncer.pipeline),
            buffers: Arc::clone(&self.buffers),
            due: Arc::new(due),
        }
    }

    fn walk(
        &mut self,
        control: &Control,
        syncer: &Arc<Syncer>,
        plan: &Plan,
        due: Due,
    ) -> (DiskOrder, Walked) {
        let workers = self
            .workers
            .get_or_insert_with(|| Arc::new(Workers::new(WORKERS)));
        let mut order = DiskOrder::new(plan.roots.clone(), Arc::clone(workers), LIMITS);
        if let (Some([object, level, block]), Some(root)) = (plan.resume, plan.roots.first()) {
            // An invalid level means the position before all objects.
            if let Ok(level) = u8::try_from(level) {
                order.resume_at(Bookmark {
                    objset: root.objset,
                    object: ObjectId(object),
                    level: Level(level),
                    block: BlockId(block),
                });
            }
        }
        let began = syncer.env.monotonic();
        let elapsed = || syncer.env.monotonic().saturating_sub(began);
        let is_told = || control.is_interrupted() || SCAN_SUSPEND_PROGRESS.is_on();
        let is_over = || elapsed() >= TURN || is_told();
        let mut round = Round {
            mender: self.mender(syncer, due),
            scans: &self.scans,
            is_over: &is_over,
            walked: Walked::default(),
        };
        walk(&mut order, &mut round);
        (order, round.walked)
    }
}

impl Work for Worker {
    /// Stops early only if the pool takes no more changes. Other failures are retried here, because
    /// no other code does.
    fn step(&mut self, control: &Control) -> Next {
        let Some(syncer) = self.syncer.upgrade() else {
            return Next::Done;
        };
        if SCAN_SUSPEND_PROGRESS.is_on() {
            return Next::After(SUSPENDED);
        }
        match self.turn(control, &syncer) {
            Ok(true) => Next::Now,
            Ok(false) => Next::Done,
            Err(Failure::Stopped) if syncer.gate.suspended().is_some() => Next::Done,
            Err(_) => Next::After(PAUSE),
        }
    }
}

/// What any of these leaves is to get.
fn all_txgs(targets: &[ResilverTarget]) -> TxgSet {
    let txgs = targets.iter().map(|target| &target.txgs);
    txgs.fold(TxgSet::default(), |all, txgs| all.with(txgs))
}

/// Bytes that repairs wrote to all leaves.
fn repaired_bytes(shape: &Shape) -> u64 {
    fn sum(vdev: &VdevStatus) -> u64 {
        let below: u64 = vdev.children.iter().map(sum).sum();
        match vdev.children.is_empty() {
            true => vdev.figures.scan_repaired_bytes,
            false => below,
        }
    }
    sum(&shape.status())
}

/// The datasets that were walked to their ends, and where the walk stopped, if in one.
fn how_far(plan: &Plan, order: &DiskOrder) -> (Vec<ObjectId>, Option<(ObjectId, [u64; 3])>) {
    let ids = plan.datasets.iter().map(|planned| planned.dataset);
    let Some(place) = order.resume_point() else {
        return (ids.collect(), None);
    };
    let current = ObjectId(place.objset.0);
    let done: Vec<ObjectId> = ids.take_while(|id| *id != current).collect();
    let at = [place.object.0, u64::from(place.level.0), place.block.0];
    (done, Some((current, at)))
}
