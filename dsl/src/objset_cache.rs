//! Open object sets of datasets, kept for a while.
//!
//! Opening one costs a block read, and listings ask for the same few facts (type, version,
//! size of a volume) of many datasets. An entry is good as long as the dataset's root pointer is
//! the same and so is whether its key is loaded.

use crate::dataset::Dataset;
use crate::dsl::Dsl;
use crate::error::DslError;
use cenote_base::ObjectId;
use cenote_dmu::ObjectSet;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Object sets kept open; each holds a few KiB besides what the block cache holds.
const OPEN_MAX: usize = 512;

/// The open object sets of a pool.
#[derive(Debug, Default)]
pub(crate) struct ObjsetCache {
    open: Mutex<HashMap<ObjectId, Arc<ObjectSet>>>,
}

impl ObjsetCache {
    fn get(&self, id: ObjectId) -> Option<Arc<ObjectSet>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(&id).cloned()
    }

    fn put(&self, id: ObjectId, set: &Arc<ObjectSet>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= OPEN_MAX {
            // Whoever uses one holds it himself; what only the cache holds can be had again.
            open.retain(|_, set| Arc::strong_count(set) > 1);
        }
        if open.len() >= OPEN_MAX {
            open.clear();
        }
        open.insert(id, Arc::clone(set));
    }

    /// Drops the object set of one dataset.
    pub(crate) fn forget(&self, id: ObjectId) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.remove(&id);
    }

    /// Drops all object sets that were opened with keys.
    pub(crate) fn forget_encrypted(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, set| set.keys().is_none());
    }
}

impl Dsl {
    /// The object set of a dataset, with its keys if it has some and they are loaded.
    pub(crate) fn objset_of(&self, dataset: &Dataset) -> Result<Arc<ObjectSet>, DslError> {
        if let Some(head) = self.open_head(dataset.id()) {
            return Ok(Arc::clone(head.set()));
        }
        let root = dataset.phys().block_pointer;
        let keys = self.objset_keys(dataset.directory())?;
        if let Some(set) = self.objsets.get(dataset.id())
            && set.root() == root
            && set.keys().map(Arc::as_ptr) == keys.as_ref().map(Arc::as_ptr)
        {
            return Ok(set);
        }
        let cache = Arc::clone(self.mos().cache());
        let set = ObjectSet::open(cache, dataset.objset_id(), root, keys)?;
        self.objsets.put(dataset.id(), &set);
        Ok(set)
    }
}
