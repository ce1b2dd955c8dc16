//! Open object sets of datasets, kept for a while.
//!
//! Opening one costs a block read, and listings ask for the same few facts (type, version,
//! size of a volume) of many datasets. An entry is good as long as the dataset's root pointer is
//! the same and so is whether its key is loaded.

use cenote_base::ObjectId;
use cenote_base::rt::{Mutex, ranks};
use cenote_dmu::ObjectSet;
use std::collections::HashMap;
use std::sync::Arc;

/// Object sets kept open; each holds a few KiB besides what the block cache holds.
const OPEN_MAX: usize = 512;

/// The open object sets of a pool.
#[derive(Debug, Default)]
pub(crate) struct ObjsetCache {
    open: Mutex<HashMap<ObjectId, Arc<ObjectSet>>, ranks::OpenSets>,
}

impl ObjsetCache {
    /// A dataset's object set, if it is open.
    pub(crate) fn get(&self, id: ObjectId) -> Option<Arc<ObjectSet>> {
        let open = self.open.lock();
        open.get(&id).cloned()
    }

    /// Keeps a dataset's object set open.
    pub(crate) fn put(&self, id: ObjectId, set: &Arc<ObjectSet>) {
        let mut open = self.open.lock();
        if open.len() >= OPEN_MAX {
            // Users of an object set hold a reference. Those that only the cache holds can be
            // reopened.
            open.retain(|_, set| set.is_shared());
        }
        if open.len() >= OPEN_MAX {
            open.clear();
        }
        open.insert(id, Arc::clone(set));
    }

    /// All object sets, with the datasets that they belong to.
    pub(crate) fn all(&self) -> Vec<(ObjectId, Arc<ObjectSet>)> {
        let open = self.open.lock();
        open.iter()
            .map(|(id, set)| (*id, Arc::clone(set)))
            .collect()
    }

    /// Drops the object set of one dataset.
    pub(crate) fn forget(&self, id: ObjectId) {
        let mut open = self.open.lock();
        open.remove(&id);
    }

    /// Drops all object sets that were opened with keys.
    pub(crate) fn forget_encrypted(&self) {
        let mut open = self.open.lock();
        open.retain(|_, set| set.keys().is_none());
    }
}
