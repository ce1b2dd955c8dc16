//! What a pool remembers of its scan while it is open.

use cenote_vdev::ResilverTarget;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// What the running scan did since its state was stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Bytes walked over.
    pub examined: u64,
    /// Bytes read.
    pub issued: u64,
    /// Bytes written again.
    pub processed: u64,
    /// Blocks that are lost.
    pub errors: u64,
}

impl Progress {
    pub fn add(&mut self, other: Self) {
        self.examined += other.examined;
        self.issued += other.issued;
        self.processed += other.processed;
        self.errors += other.errors;
    }
}

/// What the thread that scans has in memory.
#[derive(Debug, Default)]
pub(crate) struct Live {
    /// Not stored yet.
    pub fresh: Progress,
    /// Stored since this process goes on with the scan.
    pub stored: Progress,
    /// When that began: seconds UTC.
    pub pass_start: u64,
    /// When the scan was paused: seconds UTC.
    pub pause_time: u64,
    /// The leaves that the running resilver is for.
    pub targets: Vec<ResilverTarget>,
    /// Another resilver is due when this scan ends.
    pub again: bool,
    /// There is a thread, and it has not yet seen that nothing is left to do.
    pub is_running: bool,
    /// Threads that were started.
    pub threads: u64,
    /// The scan that the figures and targets are of: its start and its last group.
    pub of: (u64, u64),
}

/// The scan of a pool.
#[derive(Debug, Default)]
pub(crate) struct Scans {
    live: Mutex<Live>,
    thread: Mutex<Option<JoinHandle<()>>>,
    stop: AtomicBool,
    /// The turn that is under way is to end.
    hurry: AtomicBool,
}

impl Scans {
    pub fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn thread(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the thread is to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Whether the turn is to end before its time; told once.
    pub fn take_hurry(&self) -> bool {
        self.hurry.swap(false, Ordering::AcqRel)
    }

    /// Ends the turn that is under way.
    pub fn hurry(&self) {
        self.hurry.store(true, Ordering::Release);
    }

    /// Ends the thread; what the pool says of the scan stays, and the next import goes on.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        let thread = self.thread().take();
        if let Some(thread) = thread {
            // A thread that panicked has left the pool as its last turn did.
            let _ = thread.join();
        }
    }
}
