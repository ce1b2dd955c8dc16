//! The thread that scans, turn after turn.

use super::model::ScanRequest;
use super::plan::{self, Plan};
use super::record::{Begin, Turn};
use super::state::{Progress, Scans};
use super::walk::{Due, LIMITS, Mender, Round, walk};
use crate::sync::{SyncError, Syncer};
use crate::view::Hold;
use cenote_base::settings::SCAN_SUSPEND_PROGRESS;
use cenote_base::{BlockId, Bookmark, Level, MemoryBudget, ObjectId, ObjsetId, Txg};
use cenote_dmu::traverse::DiskOrder;
use cenote_dmu::{DmuError, ObjectSet};
use cenote_dsl::ErrorEntry;
use cenote_io::{IoClass, Workers, with_read_class};
use cenote_ondisk::scan::{Scan, ScanFunction};
use cenote_vdev::{Shape, TxgSet, VdevStatus};
use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long freed space is held back at a time.
const TURN: Duration = Duration::from_secs(4);
/// Threads that read and compare: devices serve a few of a scan's requests at a time, and a
/// processor compares faster than a device reads.
const WORKERS: usize = 8;
/// How often the thread looks whether it may go on.
const SUSPENDED: Duration = Duration::from_millis(50);
/// How long the thread waits before it tries again what could not be read.
const PAUSE: Duration = Duration::from_secs(1);
/// So often.
const FAILURES_MAX: u32 = 10;

/// What the thread has.
pub(super) struct Worker {
    /// The pool may go away without a word.
    syncer: Weak<Syncer>,
    scans: Arc<Scans>,
    buffers: Arc<MemoryBudget>,
    /// Its own, so that nobody who reads waits behind a scan's jobs.
    workers: Arc<Workers>,
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
    /// Has the scan go on that the pool says is under way, unless a thread does already.
    pub fn start(
        syncer: &Arc<Syncer>,
        scans: &Arc<Scans>,
        buffers: &Arc<MemoryBudget>,
    ) -> std::io::Result<()> {
        let mut thread = scans.thread();
        {
            let mut live = scans.live();
            if live.is_running || scans.is_stopped() {
                return Ok(());
            }
            live.is_running = true;
            live.threads += 1;
            // Not the figures of the thread before.
            live.of = (0, 0);
        }
        let number = scans.live().threads;
        let worker = Self {
            syncer: Arc::downgrade(syncer),
            scans: Arc::clone(scans),
            buffers: Arc::clone(buffers),
            workers: Arc::new(Workers::new(WORKERS)),
        };
        let builder = std::thread::Builder::new().name("scan".to_owned());
        let started = builder.spawn(move || {
            with_read_class(IoClass::Scrub, || worker.run());
            let mut live = worker.scans.live();
            if live.threads == number {
                live.is_running = false;
            }
        });
        if started.is_err() {
            scans.live().is_running = false;
        }
        // The one before is about to end, or has.
        *thread = Some(started?);
        Ok(())
    }

    fn run(&self) {
        let mut failures = 0;
        while !self.scans.is_stopped() {
            let Some(syncer) = self.syncer.upgrade() else {
                return;
            };
            if SCAN_SUSPEND_PROGRESS.is_on() {
                syncer.env.sleep(SUSPENDED);
                continue;
            }
            match self.turn(&syncer) {
                Ok(true) => failures = 0,
                Ok(false) if self.begin_again(&syncer) => failures = 0,
                // Who asks from now on starts another thread.
                Ok(false) => return,
                Err(Failure::Stopped) => return,
                Err(Failure::Read) if failures < FAILURES_MAX => {
                    failures += 1;
                    syncer.env.sleep(PAUSE);
                }
                Err(Failure::Read) => return,
            }
        }
    }

    /// Begins the resilver that was asked for while another scan was under way.
    fn begin_again(&self, syncer: &Arc<Syncer>) -> bool {
        let mut live = self.scans.live();
        let is_due = std::mem::take(&mut live.again);
        if !is_due || syncer.vdevs.shape().is_resilver_needed().is_none() {
            live.is_running = false;
            return false;
        }
        drop(live);
        let begin = Begin {
            syncer: Arc::clone(syncer),
            request: ScanRequest::Resilver,
            outcome: Ok(()),
        };
        let begun = syncer.run_task(begin);
        let is_begun = begun.is_ok_and(|begin| begin.outcome.is_ok());
        self.scans.live().is_running = is_begun;
        is_begun
    }

    /// One turn; whether the scan goes on.
    fn turn(&self, syncer: &Arc<Syncer>) -> Result<bool, Failure> {
        let hold = Hold::new(&syncer.space);
        let cache = Arc::clone(syncer.mos.cache());
        let root = syncer.uberblock().root;
        let mos = ObjectSet::open(cache, ObjsetId::MOS, root, None)?;
        let Some(scan) = plan::running(&mos)?.filter(Scan::is_running) else {
            return Ok(false);
        };
        self.note_scan(syncer, &scan);
        let due = self.due(&syncer.vdevs.shape(), &scan);
        let plan = plan::plan(&mos, &scan)?;
        let before = repaired_bytes(&syncer.vdevs.shape());
        let (order, mut progress, lost) = self.walk(syncer, &plan, due);
        let after = repaired_bytes(&syncer.vdevs.shape());
        progress.processed = after.saturating_sub(before);
        drop(hold);
        let (done, at) = how_far(&plan, &order);
        let turn = syncer.run_task(Turn {
            syncer: Arc::clone(syncer),
            of: scan,
            done,
            at,
            progress,
            lost,
            targets: self.scans.live().targets.clone(),
            after: None,
            missed_out: Vec::new(),
        })?;
        let mut live = self.scans.live();
        live.fresh = Default::default();
        live.stored.add(progress);
        if turn.after.is_none() {
            live.targets.clear();
            // They are there again, or somebody looks when they are.
            live.again |= !turn.missed_out.is_empty();
        }
        Ok(turn.after.is_some_and(|scan| scan.is_running()) || live.again)
    }

    /// Counts anew if it is another scan than in the turn before.
    fn note_scan(&self, syncer: &Syncer, scan: &Scan) {
        let of = (scan.start_time, scan.txg_max.0);
        let mut live = self.scans.live();
        if live.of != of {
            live.of = of;
            live.pass_start = syncer.env.wall_clock().as_secs();
            (live.stored, live.fresh) = Default::default();
            live.targets.clear();
            if scan.function != ScanFunction::Resilver {
                // What it cannot repair from now on is missing when it ends.
                syncer.vdevs.shape().begin_resilver(Txg(0));
            }
        }
    }

    /// What is looked after; the targets of a resilver are those of its first turn here.
    fn due(&self, shape: &Shape, scan: &Scan) -> Due {
        if scan.function != ScanFunction::Resilver {
            return Due::All(scan.txg_min, scan.txg_max);
        }
        let mut live = self.scans.live();
        if live.targets.is_empty() {
            live.targets = shape.begin_resilver(Txg(scan.txg_max.0.saturating_add(1)));
        }
        let txgs = live.targets.iter().map(|target| &target.txgs);
        Due::Stale(txgs.fold(TxgSet::default(), |all, txgs| all.with(txgs)))
    }

    fn walk(
        &self,
        syncer: &Arc<Syncer>,
        plan: &Plan,
        due: Due,
    ) -> (DiskOrder, Progress, BTreeSet<ErrorEntry>) {
        let workers = Arc::clone(&self.workers);
        let mut order = DiskOrder::new(plan.roots.clone(), workers, LIMITS);
        if let (Some([object, level, block]), Some(root)) = (plan.resume, plan.roots.first()) {
            // A level that is none stands for what comes before all objects.
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
        let is_told = || self.scans.is_stopped() || self.scans.take_hurry();
        let is_over = || elapsed() >= TURN || is_told() || SCAN_SUSPEND_PROGRESS.is_on();
        let mut round = Round {
            mender: Mender {
                pipeline: Arc::clone(&syncer.pipeline),
                buffers: Arc::clone(&self.buffers),
                due: Arc::new(due),
            },
            scans: &self.scans,
            is_over: &is_over,
            done: Progress::default(),
            lost: BTreeSet::new(),
        };
        walk(&mut order, &mut round);
        (order, round.done, round.lost)
    }
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
