//! How a task waits for its turn.
//!
//! A condition variable on the scheduler's lock would do, but a thread that it wakes runs into that
//! lock at once, while the one that woke it still has it. So each task has a flag of its own, and
//! its thread is parked.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

/// The turn of one task: given by others, taken by its thread.
#[derive(Debug, Default)]
pub(super) struct Baton {
    is_given: AtomicBool,
    /// The task's thread, once it waited.
    thread: OnceLock<Thread>,
}

impl Baton {
    /// Gives the task its turn.
    pub(super) fn give(&self) {
        // Either its thread is seen here, or it sees the flag before it parks: in the total order
        // of these operations one of the two stores comes first.
        self.is_given.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Waits for the turn. Only the task's thread calls it.
    pub(super) fn take(&self) {
        self.thread.get_or_init(std::thread::current);
        while !self.is_given.swap(false, Ordering::SeqCst) {
            std::thread::park();
        }
    }
}
