//! How far a stream has come that is being received (format/4 6, "On-disk").
//!
//! The receiver notes the point with each transaction. It is stored with the changes of that
//! transaction's group, so that after a crash the point and the data agree.

use cenote_base::rt::{Mutex, MutexGuard, ranks};
use cenote_base::{ObjectId, Txg};
use std::collections::BTreeMap;

/// How far a stream has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResumePoint {
    /// The last object that something was applied to.
    pub object: ObjectId,
    /// The offset in it of the last block, in bytes.
    pub offset: u64,
    /// Bytes of the stream that were taken, in all attempts.
    pub bytes: u64,
}

/// How far a head's stream had come, by the group that holds the changes.
#[derive(Debug, Default)]
pub(crate) struct ResumePoints(Mutex<BTreeMap<Txg, ResumePoint>, ranks::ResumePoints>);

impl ResumePoints {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Txg, ResumePoint>> {
        self.0.lock()
    }

    /// Notes a point that the group `txg` reaches.
    pub(crate) fn note(&self, txg: Txg, point: ResumePoint) {
        self.lock().insert(txg, point);
    }

    /// The newest point that is on disk with `txg`.
    pub(crate) fn take(&self, txg: Txg) -> Option<ResumePoint> {
        let mut points = self.lock();
        let later = points.split_off(&Txg(txg.0 + 1));
        let due = std::mem::replace(&mut *points, later);
        due.into_values().next_back()
    }
}
