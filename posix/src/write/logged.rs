//! Contents of files for the intent log, which reads long writes only when they are committed.

use super::locks::Locks;
use cenote_base::ObjectId;
use cenote_dataset::{LogData, read_for_log};
use cenote_dmu::{DmuError, ObjectSet};
use std::sync::Arc;

/// The files of an open dataset, as its log reads them.
#[derive(Debug)]
pub(super) struct LoggedFiles {
    pub set: Arc<ObjectSet>,
    pub locks: Arc<Locks>,
}

impl LogData for LoggedFiles {
    fn read(
        &self,
        object: ObjectId,
        offset: u64,
        length: u64,
    ) -> Result<Option<Vec<u8>>, DmuError> {
        // With the lock, no change is half done: a truncation of the file is already in the log.
        let _held = self.locks.lock(&[object]);
        read_for_log(&self.set, object, offset, length)
    }

    fn read_if_free(&self, object: ObjectId, offset: u64, length: u64) -> Option<Vec<u8>> {
        // The thread that holds the lock may be waiting for room in a group.
        let _held = self.locks.try_lock(object)?;
        let read = read_for_log(&self.set, object, offset, length);
        read.ok().flatten()
    }
}
