//! An open dataset: transactions, durability, and its end.

use crate::damage::{DamageSink, Unheard};
use crate::error::DatasetError;
use crate::log_sink::LogSink;
use crate::space::{SpacePolicy, wait_for_group};
use crate::sync_policy::SyncPolicy;
use cenote_base::{Env, Txg};
use cenote_dmu::{DmuError, ObjectSet, Transaction, TxCost, TxgGate};
use cenote_dsl::write::Head;
use cenote_dsl::{Dsl, DslError};
use cenote_intent_log::IntentLog;
use cenote_io::Writer;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A dataset that is open for changes.
///
/// The caller that opened it must end it: by [`Self::end`], or by [`Self::release`] if nothing was
/// changed. Dropping it leaves the head open, so that changes can still be stored.
#[derive(Debug)]
pub struct OpenDataset {
    set: Arc<ObjectSet>,
    /// None where only an object set is open, as in tests.
    head: Option<(Arc<Dsl>, Arc<Head>)>,
    gate: Arc<TxgGate>,
    env: Arc<dyn Env>,
    /// Nothing limits its growth without one.
    space: Option<SpacePolicy>,
    damage: Option<Arc<dyn DamageSink>>,
    blocks: Option<Arc<Writer>>,
    log: OnceLock<Arc<dyn LogSink>>,
    sync: AtomicU64,
    /// The log is not written to log devices.
    avoids_log_devices: Arc<AtomicBool>,
    /// It accepts no more changes from any holder.
    is_closed: AtomicBool,
}

impl OpenDataset {
    /// An object set alone, which is open for writing: no quota limits it.
    pub fn of_set(set: Arc<ObjectSet>, gate: Arc<TxgGate>, env: Arc<dyn Env>) -> Self {
        Self {
            set,
            head: None,
            gate,
            env,
            space: None,
            damage: None,
            blocks: None,
            log: OnceLock::new(),
            sync: AtomicU64::new(SyncPolicy::default().number()),
            avoids_log_devices: Arc::default(),
            is_closed: AtomicBool::new(false),
        }
    }

    /// The object set of a pool that must not change, to be changed in memory only: what is done
    /// after `last_synced` is never written, and takes memory from the pool's budget.
    pub fn in_memory(set: &ObjectSet, last_synced: Txg, env: Arc<dyn Env>) -> Self {
        let budget = set.cache().pipeline().memory();
        let gate = TxgGate::in_memory(last_synced, budget, Arc::clone(&env));
        let set = set.in_memory(Arc::clone(&gate));
        Self {
            // What cannot be freed in memory stays as it is on disk, where nothing is freed.
            damage: Some(Arc::new(Unheard)),
            ..Self::of_set(set, gate, env)
        }
    }

    /// Whether changes stay in memory and are never written.
    pub fn is_in_memory(&self) -> bool {
        self.gate.is_in_memory()
    }

    pub(crate) fn of_head(
        (dsl, head): (Arc<Dsl>, Arc<Head>),
        gate: Arc<TxgGate>,
        env: Arc<dyn Env>,
        damage: Option<Arc<dyn DamageSink>>,
    ) -> Self {
        Self {
            head: Some((dsl, Arc::clone(&head))),
            damage,
            ..Self::of_set(Arc::clone(head.set()), gate, env)
        }
    }

    pub(crate) fn with_space(self, space: SpacePolicy) -> Self {
        Self {
            space: Some(space),
            ..self
        }
    }

    pub(crate) fn with_blocks(self, blocks: Option<Arc<Writer>>) -> Self {
        Self { blocks, ..self }
    }

    /// The same dataset for the replay of its log, with the log's clock and without limits:
    /// operations that succeeded before the crash must not be refused now.
    pub fn for_replay(&self, env: Arc<dyn Env>) -> Self {
        Self {
            head: self.head.clone(),
            damage: self.damage.clone(),
            ..Self::of_set(Arc::clone(&self.set), Arc::clone(&self.gate), env)
        }
    }

    /// The object set.
    pub fn set(&self) -> &Arc<ObjectSet> {
        &self.set
    }

    /// The head, unless only an object set is open.
    pub fn head(&self) -> Option<&Arc<Head>> {
        self.head.as_ref().map(|(_, head)| head)
    }

    pub(crate) fn dsl(&self) -> Option<&Arc<Dsl>> {
        self.head.as_ref().map(|(dsl, _)| dsl)
    }

    pub(crate) fn blocks(&self) -> Option<&Arc<Writer>> {
        self.blocks.as_ref()
    }

    /// The pool's gate.
    pub fn gate(&self) -> &Arc<TxgGate> {
        &self.gate
    }

    /// The clock.
    pub fn env(&self) -> &Arc<dyn Env> {
        &self.env
    }

    /// Gets reports of damage found by work that no caller waits for.
    pub fn damage(&self) -> Option<&Arc<dyn DamageSink>> {
        self.damage.as_ref()
    }

    /// The property `sync`.
    pub fn sync_policy(&self) -> SyncPolicy {
        SyncPolicy::from_number(self.sync.load(Ordering::Relaxed))
    }

    /// Changes what goes by the property `sync` from now on.
    pub fn set_sync_policy(&self, policy: SyncPolicy) {
        self.sync.store(policy.number(), Ordering::Relaxed);
        self.tell_log(policy);
    }

    /// Whether the log is written elsewhere than on log devices.
    pub(crate) fn avoids_log_devices(&self) -> &Arc<AtomicBool> {
        &self.avoids_log_devices
    }

    /// Leaves log devices to others, or not: the property `logbias`. It holds from the next block
    /// of the log on that is allocated.
    pub fn set_avoids_log_devices(&self, avoids: bool) {
        self.avoids_log_devices.store(avoids, Ordering::Relaxed);
    }

    /// Notes that the dataset uses a feature that is counted by dataset.
    pub fn use_feature(&self, guid: &'static str) {
        if let Some(head) = self.head() {
            head.use_feature(guid);
        }
    }

    /// Begins a transaction that makes the dataset larger by about `bytes`, and keeps so many
    /// bytes in memory until they are on disk.
    ///
    /// # Errors
    /// If there is no space, the pool takes no changes, or the dataset is closed.
    pub fn begin(&self, bytes: u64, dirty_bytes: u64) -> Result<Transaction, DatasetError> {
        self.begin_for(|_| bytes, dirty_bytes)
    }

    /// As [`Self::begin`], where it depends on the group how much larger the dataset gets: what is
    /// written again in one group takes space once.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn begin_for(
        &self,
        bytes: impl Fn(Txg) -> u64,
        dirty_bytes: u64,
    ) -> Result<Transaction, DatasetError> {
        let cost = TxCost { dirty_bytes };
        self.unless_closed(match &self.space {
            Some(space) => space.begin(bytes, cost)?,
            None => self.gate.begin(cost)?,
        })
    }

    /// Like [`Self::begin`], for changes that make the dataset smaller: these work in a full pool,
    /// too.
    ///
    /// # Errors
    /// If the pool takes no changes, or the dataset is closed.
    pub fn begin_freeing(&self, dirty_bytes: u64) -> Result<Transaction, DatasetError> {
        let cost = TxCost { dirty_bytes };
        self.unless_closed(match &self.space {
            Some(space) => space.begin_freeing(cost)?,
            None => self.gate.begin(cost)?,
        })
    }

    /// Begins a transaction that has the dataset refer to `bytes` more of blocks that are stored
    /// already; `None` if blocks cannot be shared.
    ///
    /// # Errors
    /// If a quota is used up, the pool takes no changes, or the dataset is closed.
    pub fn begin_sharing(
        &self,
        bytes: u64,
        dirty_bytes: u64,
    ) -> Result<Option<Transaction>, DatasetError> {
        let (Some(space), Some(dsl)) = (&self.space, self.dsl()) else {
            return Ok(None);
        };
        let tx = space.begin_sharing(bytes, TxCost { dirty_bytes })?;
        // In the transaction: what is freed from now on may be shared.
        match dsl.begin_cloning() {
            true => self.unless_closed(tx).map(Some),
            false => Ok(None),
        }
    }

    /// Only in the transaction: its group cannot close before it ends. So if a dataset is closed,
    /// and the open group is on disk then, all changes are that there will be.
    fn unless_closed(&self, tx: Transaction) -> Result<Transaction, DatasetError> {
        match self.is_closed() {
            true => Err(DatasetError::Closed),
            false => Ok(tx),
        }
    }

    /// Whether `bytes` more could be written now; nothing is taken of them.
    ///
    /// # Errors
    /// If there is no space, or the pool takes no changes.
    pub fn check_space(&self, bytes: u64) -> Result<(), DatasetError> {
        self.space
            .as_ref()
            .map_or(Ok(()), |space| space.check(bytes))
    }

    /// Says in blocks of which size contents are written.
    pub fn set_block_size(&self, bytes: u64) {
        if let Some(space) = &self.space {
            space.set_block_size(bytes);
        }
    }

    /// Says how many bytes of contents there can be at most. If all of them are reserved, writing
    /// never takes more than that.
    pub fn set_most(&self, bytes: u64) {
        if let Some(space) = &self.space {
            space.set_most(bytes);
        }
    }

    /// Whether anything that was changed is not on disk.
    pub fn is_changing(&self) -> bool {
        match &self.space {
            Some(space) => space.is_changing(),
            None => self.gate.has_changes(),
        }
    }

    /// Waits for the next transaction group to be on disk.
    ///
    /// # Errors
    /// If the pool takes no more changes.
    pub fn wait_for_group(&self) -> Result<(), DmuError> {
        wait_for_group(&self.gate)
    }

    /// Whether blocks that are stored already can be shared at all.
    pub fn can_share(&self) -> bool {
        self.space.is_some()
    }

    /// Waits until everything that was changed before is in a transaction group on disk.
    ///
    /// # Errors
    /// If the pool takes no more changes; then it is not on disk.
    pub fn sync(&self) -> Result<(), DmuError> {
        self.gate.wait_synced(self.gate.request_sync())
    }

    /// Asks for everything that was changed before to be on disk soon, and does not wait for it.
    pub fn request_sync(&self) {
        self.gate.request_sync();
    }

    /// Whether it takes no changes any more.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Takes no changes from now on. Those that were made before are in the open group or in one
    /// before it.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    /// Closes the dataset and its head, once all changes are on disk.
    ///
    /// # Errors
    /// If they cannot be written. The head stays open then.
    pub fn end(&self) -> Result<(), DmuError> {
        self.close();
        // Commits that are under way may keep the log from ending with the first group.
        loop {
            self.end_log()?;
            self.gate.wait_synced(self.gate.open_txg())?;
            if self.has_ended() {
                break;
            }
        }
        self.release();
        Ok(())
    }

    /// Ends the log with the open group: everything that is durable by then is in groups on disk.
    ///
    /// # Errors
    /// If the pool takes no more changes.
    pub fn end_log(&self) -> Result<(), DmuError> {
        self.writer().map_or(Ok(()), |writer| writer.end())
    }

    /// Whether the log has ended completely, or there was none.
    pub fn has_ended(&self) -> bool {
        self.writer().is_none_or(|writer| writer.has_ended())
    }

    /// Closes the head of a dataset that was not changed, or whose changes are on disk; its log has
    /// ended.
    pub fn release(&self) {
        self.close();
        if let Some((dsl, head)) = &self.head {
            dsl.close_head(head.id());
        }
    }

    /// Notes all operations from now on in `sink`. A second call changes nothing.
    pub fn set_log_sink(&self, sink: Arc<dyn LogSink>) {
        let _ = self.log.set(sink);
    }

    /// Where operations are noted, if anywhere.
    pub fn log_sink(&self) -> Option<&Arc<dyn LogSink>> {
        self.log.get()
    }

    /// The log that a crash left, if there is one.
    ///
    /// # Errors
    /// If its header cannot be read.
    pub fn log(&self) -> Result<Option<IntentLog>, DslError> {
        Ok(IntentLog::open(&self.set)?)
    }

    /// Frees a log that was replayed.
    ///
    /// # Errors
    /// If its blocks cannot be read, or the pool takes no changes.
    pub fn destroy_log(&self, log: &IntentLog) -> Result<(), DslError> {
        let Some(head) = self.head() else {
            return Ok(());
        };
        let owned = log.owned_blocks()?;
        let tx = self.gate.begin(TxCost::default())?;
        head.destroy_log(&tx, owned)
    }
}
