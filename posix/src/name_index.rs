//! The names of a large directory by their objects, which directories themselves do not have.

use cenote_base::rt::{Mutex, MutexGuard, ranks};
use cenote_base::{MemoryLease, ObjectId};
use std::collections::HashMap;
use std::sync::Arc;

/// The names of one directory.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) directory: ObjectId,
    pub(crate) by_object: HashMap<ObjectId, Box<[u8]>>,
    /// The memory that they take.
    pub(crate) _lease: MemoryLease,
}

/// The names of the last large directory in which a name was looked up.
#[derive(Debug, Default)]
pub(crate) struct NameIndex {
    last: Mutex<Option<Arc<Names>>, ranks::NameIndex>,
}

impl NameIndex {
    /// The names that are kept.
    pub(crate) fn last(&self) -> MutexGuard<'_, Option<Arc<Names>>> {
        self.last.lock()
    }
}
