//! The thread that writes transaction groups, and the steps of one.

use super::config::{self, LiveConfig};
use super::error::SyncError;
use super::mos_sink::{MosPolicy, MosSink};
use super::obsolete::Obsolete;
use super::record::Recorder;
use super::shared::Shared;
use super::tasks::{DIED, Debt, Outcome, PUT_OFF_MAX, Pending, Queued, TaskQueue};
use crate::absence::away::Away;
use crate::allocation::Space;
use crate::dedup::DedupTables;
use crate::heartbeat::Heartbeat;
use crate::import::lineage::Chronicle;
use cenote_base::rt::{self, JoinHandle, Mutex, MutexGuard, RwLock, ranks};
use cenote_base::{Env, ObjectId, Txg};
use cenote_dmu::txg::{Quiesced, SyncReason};
use cenote_dmu::{GroupIo, ObjectSet, Transaction, TxgGate};
use cenote_dsl::write::{PoolServices, SyncContext, SyncTask};
use cenote_dsl::{Dsl, DslError};
use cenote_io::{IoContext, Pipeline, Writer, WriterParts};
use cenote_ondisk::features;
use cenote_ondisk::{BlockPointer, Uberblock};
use cenote_vdev::{LeftLeaf, Vdevs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Writing the metadata comes to rest within a few passes; more than this is a fault of ours.
const PASSES_MAX: u32 = 64;

/// Groups that are written after the last change, so that what it freed can be used.
const RELEASING_GROUPS: u32 = 3;

/// What a syncer is made of.
pub(crate) struct Parts {
    pub env: Arc<dyn Env>,
    pub vdevs: Arc<Vdevs>,
    pub pipeline: Arc<Pipeline>,
    pub mos: Arc<ObjectSet>,
    pub dsl: Arc<Dsl>,
    pub gate: Arc<TxgGate>,
    pub space: Arc<Space>,
    pub recorder: Recorder,
    pub config: LiveConfig,
    pub uberblock: Uberblock,
    /// What the pool was until now.
    pub chronicle: Chronicle,
    /// The leaves that are behind.
    pub away: Away,
    /// The txg of the checkpoint; 0 for none.
    pub checkpoint_txg: Txg,
    /// The newest group that a block of an intent log was allocated in which waits for its replay.
    pub log_birth: Txg,
}

/// Writes the transaction groups of one pool.
#[derive(Debug)]
pub(crate) struct Syncer {
    pub env: Arc<dyn Env>,
    pub vdevs: Arc<Vdevs>,
    pub pipeline: Arc<Pipeline>,
    pub(crate) writer: Arc<Writer>,
    pub mos: Arc<ObjectSet>,
    pub dsl: Arc<Dsl>,
    pub gate: Arc<TxgGate>,
    pub space: Arc<Space>,
    pub(super) dedup: Arc<DedupTables>,
    pub heartbeat: Heartbeat,
    pub(super) checkpoint_txg: AtomicU64,
    pub(super) wants_checkpoint: AtomicBool,
    pub(super) log_birth: Txg,
    recorder: Mutex<Recorder, ranks::SpaceRecorder>,
    config: Mutex<LiveConfig, ranks::LiveConfig>,
    pub(super) uberblock: RwLock<Uberblock, ranks::Uberblock>,
    chronicle: Mutex<Chronicle, ranks::Chronicle>,
    away: Mutex<Away, ranks::Away>,
    tasks: TaskQueue,
    pass: AtomicU32,
    deferred: Mutex<Vec<BlockPointer>, ranks::DeferredFrees>,
    /// What was freed of removed vdevs.
    obsolete: Mutex<Obsolete, ranks::Obsolete>,
    /// Blocks that may have other references.
    shared: Mutex<Shared, ranks::MaybeShared>,
    has_background_work: AtomicBool,
    /// How often devices came and went.
    tree_changes: AtomicU64,
    /// Devices that left with the group that is being written.
    left: Mutex<Vec<LeftLeaf>, ranks::LeftDevices>,
    /// Groups that may still be written only to let freed space go.
    releasing: AtomicU32,
    stop: AtomicBool,
    /// Whether the listener knows that there will be no more groups.
    has_told_of_end: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>, ranks::SyncThread>,
}

impl PoolServices for Syncer {
    fn free(&self, _txg: Txg, pointer: &BlockPointer) -> Result<(), DslError> {
        self.free_block(pointer)
    }

    fn share(&self, pointer: &BlockPointer) {
        self.vdevs.shape().note_shared(pointer);
        self.shared().gained.push(*pointer);
    }

    fn writer(&self) -> &Writer {
        &self.writer
    }

    fn env(&self) -> &Arc<dyn Env> {
        &self.env
    }

    fn pass(&self) -> u32 {
        self.pass.load(Ordering::Relaxed)
    }
}

impl Syncer {
    pub fn new(parts: Parts) -> Arc<Self> {
        parts.gate.heed(Arc::clone(parts.pipeline.suspension()));
        let gate = Arc::downgrade(&parts.gate);
        let load = move || gate.upgrade().map_or(100, |gate| gate.write_load());
        parts.vdevs.set_write_load(load);
        // Whatever they are needed for, a group waits for it.
        let mos = parts.mos.for_io(&IoContext::SYNCING);
        let dsl = parts.dsl.for_io(&IoContext::SYNCING);
        let dedup = Arc::new(DedupTables::new(&mos, &dsl, &parts.vdevs));
        let writer = Arc::new(Writer::new(WriterParts {
            pipeline: Arc::clone(&parts.pipeline),
            env: Arc::clone(&parts.env),
            allocator: Arc::clone(&parts.space) as _,
            dedup: Some(Arc::clone(&dedup) as _),
            repairs: Some(Arc::clone(&parts.space) as _),
        }));
        Arc::new(Self {
            env: parts.env,
            vdevs: parts.vdevs,
            pipeline: parts.pipeline,
            writer,
            mos,
            dsl,
            gate: parts.gate,
            space: parts.space,
            dedup,
            heartbeat: Heartbeat::default(),
            checkpoint_txg: AtomicU64::new(parts.checkpoint_txg.0),
            wants_checkpoint: AtomicBool::new(false),
            log_birth: parts.log_birth,
            recorder: Mutex::new(parts.recorder),
            config: Mutex::new(parts.config),
            uberblock: RwLock::new(parts.uberblock),
            chronicle: Mutex::new(parts.chronicle),
            away: Mutex::new(parts.away),
            tasks: TaskQueue::default(),
            pass: AtomicU32::new(1),
            deferred: Mutex::default(),
            obsolete: Mutex::default(),
            shared: Mutex::default(),
            has_background_work: AtomicBool::new(true),
            tree_changes: AtomicU64::new(0),
            left: Mutex::default(),
            releasing: AtomicU32::new(0),
            stop: AtomicBool::new(false),
            has_told_of_end: AtomicBool::new(false),
            thread: Mutex::default(),
        })
    }

    /// The configuration, for changes that the next txg writes.
    pub fn config(&self) -> MutexGuard<'_, LiveConfig> {
        self.config.lock()
    }

    /// The states that the pool had.
    pub fn chronicle(&self) -> MutexGuard<'_, Chronicle> {
        self.chronicle.lock()
    }

    /// The leaves that are behind. If both locks are needed, take this before the chronicle.
    pub(super) fn away(&self) -> MutexGuard<'_, Away> {
        self.away.lock()
    }

    /// No log of space maps from before the current group is needed after it.
    pub fn flush_space_maps(&self) {
        self.recorder.lock().flush_all();
    }

    /// The last uberblock that was written or found.
    pub fn uberblock(&self) -> Uberblock {
        let uberblock = self.uberblock.read();
        uberblock.clone()
    }

    /// Notes that the tree of vdevs is another, and whose devices left it. They are looked after
    /// when the group is on disk.
    pub fn tree_changed(&self, left: Vec<LeftLeaf>) {
        self.tree_changes.fetch_add(1, Ordering::AcqRel);
        self.left.lock().extend(left);
    }

    /// How often the tree of vdevs changed by devices that came and went.
    pub fn tree_changes(&self) -> u64 {
        self.tree_changes.load(Ordering::Acquire)
    }

    pub(super) fn take_left(&self) -> Vec<LeftLeaf> {
        std::mem::take(&mut *self.left.lock())
    }

    pub(super) fn obsolete(&self) -> MutexGuard<'_, Obsolete> {
        self.obsolete.lock()
    }

    pub(super) fn deferred(&self) -> MutexGuard<'_, Vec<BlockPointer>> {
        self.deferred.lock()
    }

    pub(super) fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock()
    }

    /// Whether frees of this pass wait for the next txg.
    pub(super) fn defers_frees(&self) -> bool {
        self.pass() > 1 && self.dsl.features().get(features::LOG_SPACEMAP).is_none()
    }

    /// Begins to write groups, on a thread of its own.
    pub fn start(self: &Arc<Self>) -> std::io::Result<()> {
        let syncer = Arc::clone(self);
        *self.thread.lock() = Some(rt::spawn("txg_sync", move || {
            let run = std::panic::AssertUnwindSafe(|| syncer.run());
            if let Err(payload) = rt::catch_unwind(run) {
                // The disk has the group before, and nothing here can be trusted any more.
                let words = rt::panic_words(&*payload);
                syncer.die("the writing of transaction groups", words);
                syncer.refuse_tasks();
            }
        })?);
        Ok(())
    }

    /// Writes everything and ends the thread.
    pub fn stop(&self) -> Result<(), SyncError> {
        let thread = self.thread.lock().take();
        let Some(thread) = thread else {
            return Ok(());
        };
        self.stop.store(true, Ordering::Release);
        self.give_up();
        self.gate.request_sync();
        let ended = thread.join();
        // What a group that failed had sent off may still be on its way, and once this returned
        // another system may have the devices.
        self.pipeline.arrive();
        self.space.end_repairs();
        self.space.close();
        self.gate.drop_changes();
        if ended.is_err() {
            let cause = DIED.to_owned();
            return Err(SyncError::Stopped { cause });
        }
        match self.gate.suspended() {
            Some(cause) => Err(SyncError::Stopped {
                cause: cause.to_string(),
            }),
            None => Ok(()),
        }
    }

    /// From now on no call waits for devices.
    pub fn give_up(&self) {
        self.pipeline.suspension().end();
        self.gate.wake();
    }

    /// Why there will be no more groups, whatever becomes of the devices.
    pub fn gave_up(&self) -> Option<String> {
        let suspended = self.gate.suspended().map(|cause| cause.to_string());
        suspended.or_else(|| {
            let cause = self.heartbeat.overdue(self.env.monotonic())?;
            self.suspend(&cause);
            self.give_up();
            Some(cause)
        })
    }

    /// Takes no more changes, for good; later causes are ignored.
    pub fn suspend(&self, cause: &str) {
        self.gate.suspend(cause);
        self.end_changes();
    }

    /// Does what belongs to the end of changes, which the gate may have decided by itself.
    fn end_changes(&self) {
        self.space.refuse_repairs();
        let Some(cause) = self.gate.suspended() else {
            return;
        };
        if !self.has_told_of_end.swap(true, Ordering::AcqRel) {
            self.pipeline.suspension().tell_of_end(&cause);
        }
    }

    /// Lets what waits for devices try again.
    pub fn resume(&self) {
        self.pipeline.suspension().resume();
        self.gate.wake();
    }

    fn run(&self) {
        loop {
            let reason = self.gate.wait_for_group();
            let stops = self.stop.load(Ordering::Acquire);
            if reason == SyncReason::Suspended {
                self.end_changes();
                break;
            }
            if reason == SyncReason::Timeout && !stops && !self.has_work() {
                continue;
            }
            if let Err(error) = self.sync_group() {
                self.suspend(&error.to_string());
                break;
            }
            if stops {
                break;
            }
            if self.has_background_work.load(Ordering::Relaxed) {
                // Until all is freed, group follows group.
                self.gate.request_sync();
            }
        }
        self.refuse_tasks();
    }

    /// Ends all waits for tasks with an error: there will be no more groups.
    fn refuse_tasks(&self) {
        let cause = self.gate.suspended();
        let cause = cause.map_or_else(|| "the pool is closed".to_owned(), |c| c.to_string());
        self.tasks.close(&cause);
    }

    fn has_work(&self) -> bool {
        self.gate.has_changes()
            || !self.tasks.is_empty()
            || self.config().is_mos_stale
            || self.config().are_labels_stale
            || self.has_background_work.load(Ordering::Relaxed)
            || self.is_releasing()
    }

    /// Whether a group is due although nothing changed: freed space waits, and there is not
    /// much else.
    fn is_releasing(&self) -> bool {
        self.releasing.load(Ordering::Relaxed) > 0 && self.space.is_waiting()
    }

    /// Carries out a task in the next group, waits until that is on disk and returns the task.
    ///
    /// # Errors
    /// Why it was refused, or why the pool takes no more changes.
    pub fn run_task<T: SyncTask + 'static>(&self, task: T) -> Result<T, SyncError> {
        let pending = self.queue(task)?;
        self.gate.request_sync();
        if let Some(cause) = self.gate.suspended() {
            pending.ticket.end(Outcome::Stopped(cause.to_string()));
        }
        pending.wait()
    }

    /// Queues a task for the next group, without asking for one.
    pub fn queue<T: SyncTask + 'static>(&self, task: T) -> Result<Pending<T>, SyncError> {
        Pending::queue(&self.tasks, task, self.gate.open_txg())
    }

    /// Drops log records that are durable with the group.
    fn forget_records(&self, synced: Txg) {
        for head in self.dsl.open_heads() {
            if let Some(writer) = head.log() {
                writer.note_durable(synced);
            }
        }
    }

    /// What was read from devices and written to them so far.
    fn device_io(&self) -> GroupIo {
        let counters = self.pipeline.counters();
        GroupIo {
            reads: counters.blocks_read.get(),
            read_bytes: counters.bytes_read.get(),
            writes: counters.blocks_written.get(),
            written_bytes: counters.bytes_written.get(),
        }
    }

    /// Writes the open group. Called by the syncing thread, or directly if there is none.
    pub fn sync_group(&self) -> Result<(), SyncError> {
        let Quiesced { txg, dirty_sets } = self.gate.quiesce()?;
        let mut debts = Vec::new();
        let before = self.device_io();
        let synced = self.write_group(txg, &dirty_sets, &mut debts);
        let after = self.device_io();
        self.gate.note_io(
            txg,
            GroupIo {
                reads: after.reads - before.reads,
                read_bytes: after.read_bytes - before.read_bytes,
                writes: after.writes - before.writes,
                written_bytes: after.written_bytes - before.written_bytes,
            },
        );
        let synced = synced.and_then(|()| {
            // Before any waiting caller learns that the group is on disk.
            let is_freeing = self.has_background_work.load(Ordering::Relaxed);
            Ok(self.dsl.commit_room(txg, is_freeing)?)
        });
        match &synced {
            Ok(()) => {
                self.gate.synced(txg);
                self.forget_records(txg);
                debts.into_iter().for_each(|debt| debt.pay(Outcome::Done));
            }
            Err(error) => {
                let cause = error.to_string();
                self.suspend(&cause);
                let stopped = || Outcome::Stopped(cause.clone());
                debts.into_iter().for_each(|debt| debt.pay(stopped()));
            }
        }
        synced
    }

    fn write_group(
        &self,
        txg: Txg,
        dirty_sets: &[Arc<ObjectSet>],
        debts: &mut Vec<Debt>,
    ) -> Result<(), SyncError> {
        let tx = Transaction::syncing(txg);
        let context = SyncContext {
            dsl: &self.dsl,
            tx: &tx,
            pool: self,
        };
        self.pass.store(1, Ordering::Relaxed);
        let begun = self.space.begin_group(txg);
        begun.map_err(|(vdev, conflict)| SyncError::Space { vdev, conflict })?;
        let begins_checkpoint = self.begin_checkpoint();
        for set in dirty_sets {
            let id = ObjectId(set.id().0);
            let head = self.dsl.open_head(id);
            // Its writers rely on it being written.
            let head = head.filter(|head| head.set().is_same(set));
            head.ok_or(SyncError::HeadClosed { id })?.sync(&context)?;
        }
        self.carry_out_tasks(&context, debts)?;
        if begins_checkpoint {
            self.abandon_checkpoint(&context)?;
        }
        let worked = context.free_in_background()? | self.discard_some(&context)?;
        self.has_background_work.store(worked, Ordering::Relaxed);
        self.free_deferred(&context)?;
        self.apply_shared(&context)?;
        if self.mos.is_dirty_in(txg) || self.has_unrecorded() {
            self.releasing.store(RELEASING_GROUPS, Ordering::Relaxed);
        } else if self.is_releasing() {
            self.releasing.fetch_sub(1, Ordering::Relaxed);
            self.mos.mark_dirty(&tx)?;
        }
        let root = self.write_metadata(&context)?;
        self.commit(txg, root)
    }

    /// Carries out the tasks that wait, but for those that the next group is for.
    fn carry_out_tasks(
        &self,
        context: &SyncContext<'_>,
        debts: &mut Vec<Debt>,
    ) -> Result<(), SyncError> {
        let mut early = Vec::new();
        let mut due = self.tasks.take_due(context.txg()).into_iter();
        while let Some(mut queued) = due.next() {
            // From its check on: no head that the task found closed may be opened meanwhile.
            let _change = self.dsl.begin_change();
            match queued.task.check(context) {
                Ok(()) => {}
                Err(DslError::NextGroup { name }) if queued.put_off == PUT_OFF_MAX => {
                    let error = DslError::NeverDue { name };
                    queued.debt.pay(Outcome::Refused(error));
                    continue;
                }
                Err(DslError::NextGroup { .. }) => {
                    queued.put_off += 1;
                    early.push(queued);
                    continue;
                }
                Err(error) => {
                    queued.debt.pay(Outcome::Refused(error));
                    continue;
                }
            }
            let Queued { mut task, debt, .. } = queued;
            debts.push(debt);
            if let Err(error) = task.sync(context) {
                // There will be no group for the others, so their waits end with an error.
                early.extend(due);
                self.tasks.put_back(early);
                return Err(error.into());
            }
        }
        if !early.is_empty() {
            self.tasks.put_back(early);
            self.gate.request_sync();
        }
        Ok(())
    }

    /// Frees what the group before put off.
    fn free_deferred(&self, context: &SyncContext<'_>) -> Result<(), SyncError> {
        loop {
            let blocks = context.take_deferred_frees()?;
            if blocks.is_empty() {
                return Ok(());
            }
            for block in &blocks {
                self.free_block(block)?;
            }
        }
    }

    /// Writes the meta object set until that changes nothing more; returns its root.
    fn write_metadata(&self, context: &SyncContext<'_>) -> Result<BlockPointer, SyncError> {
        let txg = context.txg();
        self.store_away(context)?;
        for pass in 1..=PASSES_MAX {
            self.pass.store(pass, Ordering::Relaxed);
            self.store_missed(context)?;
            self.store_obsolete(context)?;
            self.store_config(context)?;
            if !self.mos.is_dirty_in(txg) && !self.has_unrecorded() {
                return Ok(self.mos.root());
            }
            let recorded = self.recorder.lock().record(context, &self.space, pass)?;
            let mut config = self.config();
            for (vdev, array) in recorded.arrays {
                if let Some(top) = config.top_mut(vdev) {
                    top.metaslab_array = Some(array);
                    config.touch();
                }
            }
            drop(config);
            self.store_config(context)?;
            let deferred = std::mem::take(&mut *self.deferred());
            if !deferred.is_empty() {
                context.defer_frees(&deferred)?;
            }
            let policy = MosPolicy::new(&self.dsl, pass);
            let sink = MosSink::new(self);
            self.mos.sync(txg, &sink, &policy)?;
            let exchange = sink.finish()?;
            context.account_metadata(&exchange.born, &exchange.died)?;
        }
        let passes = PASSES_MAX;
        Err(SyncError::Endless { txg, passes })
    }

    /// Brings the copy of the configuration in the meta object set up to date.
    fn store_config(&self, context: &SyncContext<'_>) -> Result<(), SyncError> {
        let stale = {
            let mut config = self.config();
            config.update_features(&self.dsl);
            config.take_stale(context.txg())
        };
        // Not under the lock: this may wait for devices, and other threads need the configuration.
        stale.map_or(Ok(()), |list| config::store(context, &list))
    }

    /// Whether anything was allocated, freed or shared that is not in the tables yet.
    pub(super) fn has_unrecorded(&self) -> bool {
        !self.deferred().is_empty()
            || !self.shared().is_empty()
            || !self.obsolete().is_empty()
            || self.space.has_unrecorded()
    }
}
