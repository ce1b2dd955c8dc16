//! The threads of the rebuilds of a pool.

use cenote_base::VdevId;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// The rebuilds of a pool.
#[derive(Debug, Default)]
pub(crate) struct Rebuilds {
    threads: Mutex<BTreeMap<VdevId, JoinHandle<()>>>,
    is_stopped: AtomicBool,
}

impl Rebuilds {
    pub fn threads(&self) -> MutexGuard<'_, BTreeMap<VdevId, JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the threads are to end.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    /// Has all threads stop where they are; what the disk says stays.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        let threads = {
            let mut threads = self.threads();
            std::mem::take(&mut *threads)
        };
        for (_, thread) in threads {
            // A thread that failed has left the pool as its last note says.
            let _ = thread.join();
        }
    }
}
