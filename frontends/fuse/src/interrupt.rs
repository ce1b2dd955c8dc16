//! What a worker is doing: the request that it answers, and whether its caller still waits.

use crate::transport::Device;
use cenote_base::rt::{Mutex, ranks};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Whether the caller of a request was signalled and no longer wants the answer.
#[derive(Debug, Default)]
pub struct Interrupt {
    pub(crate) current: AtomicU64,
    raised: AtomicU64,
    /// The request that any thread may answer; the one that takes its number from here does.
    open: AtomicU64,
    /// Where the worker's requests come from, and answers go to.
    pub(crate) device: Mutex<Option<Arc<Device>>, ranks::FuseInterrupt>,
}

impl Interrupt {
    /// Whether to give up and answer `EINTR`. Cheap enough for every step of a long wait.
    pub fn is_raised(&self) -> bool {
        let current = self.current.load(Ordering::Acquire);
        current != 0 && self.raised.load(Ordering::Acquire) == current
    }

    pub(crate) fn begin(&self, unique: u64, is_open: bool) {
        let open = if is_open { unique } else { 0 };
        self.open.store(open, Ordering::Release);
        // Stored before checking whether the session was cut. The thread that cuts it sets that
        // flag first, and then reads this.
        self.current.store(unique, Ordering::SeqCst);
    }

    /// Takes the right to answer a request that began as open; false if another thread has it.
    pub(crate) fn claim(&self, unique: u64) -> bool {
        let claimed = self
            .open
            .compare_exchange(unique, 0, Ordering::AcqRel, Ordering::Acquire);
        claimed.is_ok()
    }

    pub(crate) fn is_open(&self, unique: u64) -> bool {
        self.open.load(Ordering::Acquire) == unique
    }

    pub(crate) fn end(&self) {
        self.current.store(0, Ordering::Release);
    }

    /// Raises the interrupt if `unique` is being worked on.
    pub(crate) fn raise(&self, unique: u64) -> bool {
        let hit = self.current.load(Ordering::Acquire) == unique;
        if hit {
            self.raised.store(unique, Ordering::Release);
        }
        hit
    }
}

/// While it lives, its slot's request can be interrupted.
pub(crate) struct WorkingOn<'a> {
    slot: &'a Interrupt,
}

impl<'a> WorkingOn<'a> {
    pub(crate) fn new(slot: &'a Interrupt) -> Self {
        Self { slot }
    }
}

impl Drop for WorkingOn<'_> {
    fn drop(&mut self) {
        self.slot.end();
    }
}
