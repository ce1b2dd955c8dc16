//! The heads of a pool that are open for writing.

use super::head::Head;
use super::policy::HeadPolicy;
use crate::dataset::Dataset;
use crate::dsl::Dsl;
use crate::error::DslError;
use cenote_base::ObjectId;
use cenote_dmu::{ObjectSet, TxgGate};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Open heads by their numbers.
#[derive(Debug, Default)]
pub struct Heads {
    open: Mutex<HashMap<ObjectId, Arc<Head>>>,
}

impl Heads {
    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectId, Arc<Head>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Dsl {
    /// Opens a head for writing, once for all who ask.
    ///
    /// # Errors
    /// If it is no head, its object set cannot be read, or it is encrypted and its key not loaded.
    pub fn open_for_writing(
        self: &Arc<Self>,
        dataset: &Dataset,
        gate: &Arc<TxgGate>,
    ) -> Result<Arc<Head>, DslError> {
        let id = dataset.id();
        if dataset.is_snapshot() {
            return Err(DslError::NotADataset { object: id });
        }
        let mut heads = self.heads.lock();
        if let Some(head) = heads.get(&id) {
            return Ok(Arc::clone(head));
        }
        let keys = self.objset_keys(dataset.directory())?;
        if keys.is_none() && dataset.directory().crypto_key()?.is_some() {
            let name = dataset.name().clone();
            return Err(DslError::KeyRequired { name });
        }
        let (_, phys) = self.read_dataset(id)?;
        let cache = Arc::clone(self.mos().cache());
        let gate = Some(Arc::clone(gate));
        let (objset, root) = (dataset.objset_id(), phys.block_pointer);
        let set = ObjectSet::open_writable(cache, objset, root, keys, gate)?;
        set.set_caching(dataset.caching()?);
        let directory = dataset.directory().id();
        let head = Head::new(id, directory, set, HeadPolicy::of(dataset)?);
        heads.insert(id, Arc::clone(&head));
        self.objsets.forget(id);
        Ok(head)
    }

    /// Opens a head to be written to as it is stored elsewhere, without its keys.
    ///
    /// # Errors
    /// If it is no head, it is open already, or its object set cannot be read.
    pub fn open_raw(
        self: &Arc<Self>,
        dataset: &Dataset,
        gate: &Arc<TxgGate>,
    ) -> Result<Arc<Head>, DslError> {
        let id = dataset.id();
        let mut heads = self.heads.lock();
        if dataset.is_snapshot() || heads.contains_key(&id) {
            return Err(DslError::Busy {
                name: dataset.name().clone(),
            });
        }
        let (_, phys) = self.read_dataset(id)?;
        let cache = Arc::clone(self.mos().cache());
        let (objset, root) = (dataset.objset_id(), phys.block_pointer);
        let set = ObjectSet::open_writable(cache, objset, root, None, Some(Arc::clone(gate)))?;
        let directory = dataset.directory().id();
        let head = Head::new(id, directory, set, HeadPolicy::of(dataset)?);
        heads.insert(id, Arc::clone(&head));
        self.objsets.forget(id);
        Ok(head)
    }

    /// The head with this number, if it is open for writing.
    pub fn open_head(&self, id: ObjectId) -> Option<Arc<Head>> {
        self.heads.lock().get(&id).cloned()
    }

    /// All heads that are open for writing.
    pub fn open_heads(&self) -> Vec<Arc<Head>> {
        self.heads.lock().values().cloned().collect()
    }

    /// Closes a head; all its changes must be on disk.
    pub fn close_head(&self, id: ObjectId) {
        self.heads.lock().remove(&id);
    }
}
