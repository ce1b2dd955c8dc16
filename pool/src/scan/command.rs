//! Commands on a pool's scans.

use super::logs::mend_waiting;
use super::model::{ScanError, ScanRequest, ScanStatus};
use super::record::{Begin, Interrupt, SCRUB_FOLLOWS};
use super::run::Worker;
use super::state::Scans;
use crate::mos::directory_words;
use crate::pool::Pool;
use crate::sync::{Actor, Syncer};
use cenote_base::{Guid, MemoryBudget, ObjectId, Txg};
use cenote_dsl::DslError;
use cenote_ondisk::resilver_targets::{self, RESILVER_TARGETS};
use cenote_ondisk::scan::{Scan, ScanFunction, ScanState};
use cenote_vdev::TxgSet;
use std::sync::Arc;

/// Starts a scan without a user's command. During a resilver it is queued; a resilver replaces a
/// running scrub.
pub(crate) fn begin_scan(
    syncer: &Arc<Syncer>,
    scans: &Arc<Scans>,
    buffers: &Arc<MemoryBudget>,
    request: ScanRequest,
) -> Result<(), ScanError> {
    let begin = Begin {
        waits: true,
        ..Begin::new(syncer, scans, request)
    };
    let _turn_ends = (request == ScanRequest::Resilver).then(|| scans.job.pause());
    syncer.run_task(begin)?.outcome?;
    Worker::start(syncer, scans, buffers).map_err(ScanError::Thread)
}

impl Pool {
    /// Starts a scan, or resumes a paused scrub. When this returns, the start is on disk and a
    /// thread of the pool works on it. The command is recorded in the pool's history.
    ///
    /// # Errors
    /// If another scan is under way. A resilver takes the place of a scrub.
    pub fn start_scan(
        &self,
        request: ScanRequest,
        (actor, command): (&Actor, &str),
    ) -> Result<(), ScanError> {
        let syncer = self.writer()?;
        let is_resilver = request == ScanRequest::Resilver;
        let _turn_ends = is_resilver.then(|| self.scans().job.pause());
        let begin = Begin::new(syncer, self.scans(), request);
        self.run_command(begin, actor, command)?.outcome?;
        self.resume_scan()
    }

    /// Starts a thread that resumes the active scan of the pool.
    pub(crate) fn resume_scan(&self) -> Result<(), ScanError> {
        let Some(syncer) = self.syncer() else {
            return Ok(());
        };
        let buffers = &self.options().buffers.scans;
        self.scans().live().pause_time = 0;
        Worker::start(syncer, self.scans(), buffers).map_err(ScanError::Thread)
    }

    /// Repairs the logs that an import claimed, before they are replayed. Unreadable blocks are
    /// reported at the replay; scrubs repair logs, too.
    pub(crate) fn mend_waiting_logs(&self, heads: &[ObjectId]) {
        if let Some(syncer) = self.syncer().filter(|_| !heads.is_empty()) {
            let _ = mend_waiting(syncer, &self.options().buffers.scans, heads);
        }
    }

    /// Resumes after an import: the active scan, or else a resilver if some device misses data that
    /// is available. If this fails, only the next import tries again.
    pub(crate) fn resume_scans(&self) {
        let Some(syncer) = self.syncer().filter(|_| self.options().scans) else {
            return;
        };
        let scan = self.dsl().scan().ok().flatten();
        let scan = scan.filter(|scan| scan.state == ScanState::Scanning);
        let needs_resilver = self.vdevs().is_resilver_needed().is_some();
        let follows = directory_words(self.mos(), SCRUB_FOLLOWS).ok().flatten();
        self.scans().live().scrub_follows = follows.is_some();
        // A device gets what it misses, whatever was scrubbed or paused.
        let _ = match scan {
            Some(scan) if scan.function == ScanFunction::Resilver => {
                self.resume_resilver(syncer, &scan)
            }
            Some(_) | None if needs_resilver => self.look_for_resilver().map(drop),
            Some(scan) if scan.is_running() => {
                let seconds = self.env().wall_clock().as_secs();
                self.scans().live().begin(Txg(0), seconds, Vec::new());
                self.resume_scan()
            }
            Some(_) => {
                self.scans().live().pause_time = self.env().wall_clock().as_secs();
                Ok(())
            }
            // The resilver that it waited for has ended, here or elsewhere.
            None if follows.is_some() => {
                let (since, until) = (Txg(0), None);
                let buffers = &self.options().buffers.scans;
                let scrub = ScanRequest::Scrub { since, until };
                begin_scan(syncer, self.scans(), buffers, scrub)
            }
            None => Ok(()),
        };
    }

    /// Resumes a resilver for the devices that got everything it has walked so far. Others need
    /// another one afterwards. If there are no such devices it restarts, whichever software began
    /// it.
    fn resume_resilver(&self, syncer: &Arc<Syncer>, scan: &Scan) -> Result<(), ScanError> {
        let words = directory_words(self.mos(), RESILVER_TARGETS).map_err(DslError::from);
        let words = words.map_err(ScanError::Log)?.unwrap_or_default();
        let known = resilver_targets::decode(&words, scan).into_iter();
        let known = known.map(|(leaf, missed)| (leaf, TxgSet::from_ranges(missed)));
        let known: Vec<(Guid, TxgSet)> = known.collect();
        let txgs = Txg(scan.txg_min.0.saturating_add(1))..Txg(scan.txg_max.0.saturating_add(1));
        let mut targets = self.vdevs().resume_resilver(&known, &txgs);
        // Another implementation may pass over old blocks that a removal copied in these groups.
        let copied = self.vdevs().copied_in();
        let is_older = targets.iter().any(|target| target.txgs.intersects(&copied));
        if is_older && scan.txg_min != Txg(0) {
            targets.clear();
        }
        if targets.is_empty() {
            let begin = Begin {
                is_restart: true,
                ..Begin::new(syncer, self.scans(), ScanRequest::Resilver)
            };
            syncer.run_task(begin)?.outcome?;
        } else {
            let seconds = self.env().wall_clock().as_secs();
            self.scans().live().begin(Txg(0), seconds, targets);
        }
        self.resume_scan()
    }

    /// Begins a resilver if some device misses what it could be given, and says whether one is
    /// under way then, or due after the one that is. To be called when a device has come back,
    /// was attached or replaces another.
    ///
    /// # Errors
    /// If the pool takes no changes, or no thread can be started.
    pub fn look_for_resilver(&self) -> Result<bool, ScanError> {
        let Some(syncer) = self.syncer() else {
            return Ok(false);
        };
        if syncer.vdevs.shape().is_resilver_needed().is_none() {
            return Ok(false);
        }
        let buffers = &self.options().buffers.scans;
        begin_scan(syncer, self.scans(), buffers, ScanRequest::Resilver)?;
        Ok(true)
    }

    /// Whether a scrub is queued that begins when the resilver has ended.
    pub fn scrub_follows(&self) -> bool {
        self.scans().live().scrub_follows
    }

    /// Whether the resilver that is under way is for a leaf.
    pub fn is_being_resilvered(&self, leaf: Guid) -> bool {
        self.scans().is_target(leaf)
    }

    /// Pauses the scrub that is under way; it stays paused over exports, until it is started again.
    ///
    /// # Errors
    /// If there is none.
    pub fn pause_scan(&self, by: (&Actor, &str)) -> Result<(), ScanError> {
        self.interrupt_scan(true, by)
    }

    /// Ends the scrub that is under way.
    ///
    /// # Errors
    /// If there is none.
    pub fn cancel_scan(&self, by: (&Actor, &str)) -> Result<(), ScanError> {
        self.interrupt_scan(false, by)
    }

    fn interrupt_scan(
        &self,
        is_pause: bool,
        (actor, command): (&Actor, &str),
    ) -> Result<(), ScanError> {
        let syncer = Arc::clone(self.writer()?);
        let scan = self.dsl().scan().ok().flatten();
        if !scan.is_some_and(|scan| scan.state == ScanState::Scanning) {
            // The history must not record it.
            return Err(ScanError::NotScrubbing);
        }
        let outcome = Ok(());
        let task = Interrupt {
            syncer,
            is_pause,
            outcome,
        };
        // The turn that is under way notes how far it came, which is kept.
        let _turn_ends = self.scans().job.pause();
        self.run_command(task, actor, command)?.outcome?;
        if is_pause {
            self.scans().live().pause_time = self.env().wall_clock().as_secs();
        }
        Ok(())
    }

    /// The last or current scan; `None` if there never was one.
    ///
    /// # Errors
    /// If the scan's state is unreadable.
    pub fn scan_status(&self) -> Result<Option<ScanStatus>, DslError> {
        let Some(mut scan) = self.dsl().scan()? else {
            return Ok(None);
        };
        if scan.function == ScanFunction::None {
            return Ok(None);
        }
        let live = self.scans().live();
        let is_live = scan.is_running() && self.scans().job.is_at_work();
        if is_live {
            scan.examined = scan.examined.saturating_add(live.fresh.examined);
            scan.processed = scan.processed.saturating_add(live.fresh.processed);
            scan.errors = scan.errors.saturating_add(live.fresh.errors);
        }
        let mut pass = live.stored;
        pass.add(live.fresh);
        Ok(Some(ScanStatus {
            scan,
            pass_start: if is_live { live.pass_start } else { 0 },
            pass_examined: if is_live { pass.examined } else { 0 },
            pass_issued: if is_live { pass.issued } else { 0 },
            pause_time: live.pause_time,
        }))
    }
}
