//! The heads of a pool that are open for writing, and those that must stay as they are.
//!
//! A long-running reader of a head, such as a sender, keeps the head: until it is done, no block of
//! the head is freed. This is recorded in memory only, so it also works in a read-only pool. A head
//! is open for writing or kept, never both.
//!
//! Neither begins while a task changes the tree. A task that destroys a head or replaces its
//! contents first checks whether the head is in use. The result stays valid until the task ends.

use super::in_use::InUse;
use super::open_head::Head;
use super::policy::HeadPolicy;
use crate::dataset::Dataset;
use crate::dsl::Dsl;
use crate::error::DslError;
use cenote_base::ObjectId;
use cenote_base::rt::{Instant, MutexGuard};
use cenote_dmu::{DmuError, ObjectSet, TxgGate};
use cenote_ledger::{OpenedHead, PoolRoom};
use cenote_ondisk::dsl_dataset::DslDataset;
use std::sync::Arc;
use std::time::Duration;

/// How long opening a head waits for tasks, each of which takes moments.
const TASK_PATIENCE: Duration = Duration::from_secs(20);

/// Keeps a head as it is while it lives.
#[derive(Debug)]
pub struct KeptHead {
    dsl: Arc<Dsl>,
    id: ObjectId,
}

impl Drop for KeptHead {
    fn drop(&mut self) {
        let kept = &mut self.dsl.heads.lock().kept;
        let count = kept.get(&self.id).copied().unwrap_or(1) - 1;
        match count {
            0 => kept.remove(&self.id),
            left => kept.insert(self.id, left),
        };
    }
}

impl Dsl {
    /// The heads, while no task changes the tree; `dataset` is what they are wanted for.
    ///
    /// # Errors
    /// If a task does not end, because devices that it needs have failed.
    fn heads_between_tasks(&self, dataset: &Dataset) -> Result<MutexGuard<'_, InUse>, DslError> {
        let begun = Instant::now();
        loop {
            let heads = self.heads.lock();
            // A task begins before it looks at the heads: it sees what is done under this lock.
            if !self.changes.is_under_way() {
                return Ok(heads);
            }
            drop(heads);
            if begun.elapsed() > TASK_PATIENCE {
                return Err(busy(dataset));
            }
            self.changes.wait();
        }
    }

    /// A head as it is now.
    ///
    /// # Errors
    /// If it was destroyed since it was looked up, or cannot be read.
    fn still_there(&self, dataset: &Dataset) -> Result<DslDataset, DslError> {
        match self.read_dataset(dataset.id()) {
            Ok((_, phys)) => Ok(phys),
            Err(DslError::Dmu(DmuError::NoSuchObject { .. })) => Err(DslError::NoSuchDataset {
                name: dataset.name().clone(),
            }),
            Err(error) => Err(error),
        }
    }

    /// Opens a head for writing; all callers share one handle.
    ///
    /// # Errors
    /// If it is no head, or kept; its object set cannot be read; or it is encrypted and its key not
    /// loaded.
    pub fn open_for_writing(
        self: &Arc<Self>,
        dataset: &Dataset,
        gate: &Arc<TxgGate>,
    ) -> Result<Arc<Head>, DslError> {
        let id = dataset.id();
        if dataset.is_snapshot() {
            return Err(DslError::NotADataset { object: id });
        }
        let pool = self.room_of_first_head()?;
        let mut heads = self.heads_between_tasks(dataset)?;
        if let Some(head) = heads.open.get(&id) {
            return Ok(Arc::clone(head));
        }
        if heads.kept.contains_key(&id) {
            return Err(busy(dataset));
        }
        let keys = self.objset_keys(dataset.directory())?;
        if keys.is_none() && dataset.directory().crypto_key()?.is_some() {
            let name = dataset.name().clone();
            return Err(DslError::KeyRequired { name });
        }
        let phys = self.still_there(dataset)?;
        let cache = Arc::clone(self.mos().cache());
        let (objset, root) = (dataset.objset_id(), phys.block_pointer);
        let set = ObjectSet::open_writable(cache, objset, root, keys, Some(Arc::clone(gate)))?;
        set.set_caching(dataset.caching()?);
        let directory = dataset.directory().id();
        let policy = HeadPolicy::of(dataset)?;
        self.enter_room(id, (&policy, dataset.raised_quota()?), (gate, pool))?;
        let head = Head::new(id, directory, &set, policy);
        heads.open.insert(id, Arc::clone(&head));
        self.objsets.forget(id);
        Ok(head)
    }

    /// Opens a head to be written to as it is stored elsewhere, without its keys.
    ///
    /// # Errors
    /// If it is no head, it is open already or kept, or its object set cannot be read.
    pub fn open_raw(
        self: &Arc<Self>,
        dataset: &Dataset,
        gate: &Arc<TxgGate>,
    ) -> Result<Arc<Head>, DslError> {
        let id = dataset.id();
        let pool = self.room_of_first_head()?;
        let mut heads = self.heads_between_tasks(dataset)?;
        let is_in_use = heads.open.contains_key(&id) || heads.kept.contains_key(&id);
        if dataset.is_snapshot() || is_in_use {
            return Err(busy(dataset));
        }
        let phys = self.still_there(dataset)?;
        let cache = Arc::clone(self.mos().cache());
        let (objset, root) = (dataset.objset_id(), phys.block_pointer);
        let set = ObjectSet::open_writable(cache, objset, root, None, Some(Arc::clone(gate)))?;
        let directory = dataset.directory().id();
        let policy = HeadPolicy::of(dataset)?;
        self.enter_room(id, (&policy, dataset.raised_quota()?), (gate, pool))?;
        let head = Head::new(id, directory, &set, policy);
        heads.open.insert(id, Arc::clone(&head));
        self.objsets.forget(id);
        Ok(head)
    }

    /// Keeps a head as it is: it cannot be opened for writing, rolled back or destroyed until the
    /// returned guard is dropped.
    ///
    /// # Errors
    /// If it is no head, or open for writing.
    pub fn keep_head(self: &Arc<Self>, dataset: &Dataset) -> Result<KeptHead, DslError> {
        let id = dataset.id();
        let mut heads = self.heads_between_tasks(dataset)?;
        if dataset.is_snapshot() || heads.open.contains_key(&id) {
            return Err(busy(dataset));
        }
        *heads.kept.entry(id).or_default() += 1;
        let dsl = Arc::clone(self);
        Ok(KeptHead { dsl, id })
    }

    /// The head with this number, if it is open for writing.
    pub fn open_head(&self, id: ObjectId) -> Option<Arc<Head>> {
        self.heads.lock().open.get(&id).cloned()
    }

    /// Whether a head is open for writing, or kept.
    pub(super) fn is_head_in_use(&self, id: ObjectId) -> bool {
        let heads = self.heads.lock();
        heads.open.contains_key(&id) || heads.kept.contains_key(&id)
    }

    /// All heads that are open for writing, in order of number.
    pub fn open_heads(&self) -> Vec<Arc<Head>> {
        self.heads.lock().open.values().cloned().collect()
    }

    /// Closes a head; all its changes must be on disk.
    pub fn close_head(&self, id: ObjectId) {
        let mut heads = self.heads.lock();
        heads.open.remove(&id);
        // Under the lock, so that a concurrent open adds the head after this.
        self.rooms().close(id);
    }

    /// What the pool has, if no head is open. That is read before heads are locked.
    fn room_of_first_head(&self) -> Result<Option<PoolRoom>, DslError> {
        let is_first = self.rooms().is_unused();
        is_first.then(|| self.pool_room(false)).transpose()
    }

    /// Enters a head that is being opened, and the directories above it, into the ledger of room.
    fn enter_room(
        &self,
        id: ObjectId,
        (policy, raised_quota): (&HeadPolicy, Option<u64>),
        (gate, pool): (&Arc<TxgGate>, Option<PoolRoom>),
    ) -> Result<(), DslError> {
        loop {
            let synced = self.rooms().synced();
            let (_, phys) = self.read_dataset(id)?;
            let chain = self.directories_above(phys.directory)?;
            let opened = OpenedHead {
                id,
                phys: &phys,
                refquota: policy.refquota,
                refreservation: policy.refreservation,
                raised_quota,
            };
            let now = (gate.open_txg(), pool);
            if self.rooms().open(&opened, &chain, synced, now) {
                return Ok(());
            }
        }
    }
}

fn busy(dataset: &Dataset) -> DslError {
    DslError::Busy {
        name: dataset.name().clone(),
    }
}
