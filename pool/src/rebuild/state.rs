//! The threads of the rebuilds of a pool.

use crate::duty::Duty;
use cenote_base::VdevId;
use cenote_base::rt::{Mutex, ranks};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The rebuilds of a pool.
#[derive(Debug, Default)]
pub(crate) struct Rebuilds {
    duties: Mutex<BTreeMap<VdevId, Arc<Duty>>, ranks::Rebuilds>,
    is_stopped: AtomicBool,
}

impl Rebuilds {
    /// The rebuild of a top-level vdev.
    pub fn duty(&self, vdev: VdevId) -> Arc<Duty> {
        let mut duties = self.duties.lock();
        Arc::clone(duties.entry(vdev).or_default())
    }

    /// Whether the threads are to end.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    /// Has all threads stop where they are; what the disk says stays.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        let duties = {
            let duties = self.duties.lock();
            duties.values().map(Arc::clone).collect::<Vec<_>>()
        };
        duties.iter().for_each(|duty| duty.stop());
    }
}
