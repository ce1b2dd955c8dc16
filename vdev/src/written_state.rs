//! What writing did to a leaf, and whether it was given up.

use cenote_base::Txg;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Writes that may fail in a row before the leaf is given up.
pub(crate) const WRITE_FAILURES_MAX: u32 = 10;

/// What writing did to a leaf.
#[derive(Debug)]
pub(crate) struct WrittenState {
    /// Given up since it was opened.
    faulted: AtomicBool,
    pub(crate) failures_in_a_row: AtomicU32,
    /// The first and last txg of what was written since the last flush; none if the first is
    /// larger.
    unflushed: [AtomicU64; 2],
    /// The device took something since the last flush.
    pub(crate) arrived: AtomicBool,
    /// Something was repaired since the last flush.
    pub(crate) repaired: AtomicBool,
}

impl Default for WrittenState {
    fn default() -> Self {
        Self {
            faulted: AtomicBool::new(false),
            failures_in_a_row: AtomicU32::new(0),
            unflushed: [AtomicU64::new(u64::MAX), AtomicU64::new(0)],
            arrived: AtomicBool::new(false),
            repaired: AtomicBool::new(false),
        }
    }
}

impl WrittenState {
    /// Whether the leaf was given up.
    pub(crate) fn is_faulted(&self) -> bool {
        self.faulted.load(Ordering::Acquire)
    }

    /// Gives the leaf up; says whether it was in use before.
    pub(crate) fn set_faulted(&self) -> bool {
        !self.faulted.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn begin(&self, txg: Txg) {
        self.unflushed[0].fetch_min(txg.0, Ordering::AcqRel);
        self.unflushed[1].fetch_max(txg.0, Ordering::AcqRel);
    }

    /// Whether something was written since the last flush.
    pub(crate) fn has_unflushed(&self) -> bool {
        self.repaired.load(Ordering::Acquire)
            || self.unflushed[0].load(Ordering::Acquire)
                <= self.unflushed[1].load(Ordering::Acquire)
    }

    /// Whether the device took something that may not be durable yet.
    pub(crate) fn has_arrived(&self) -> bool {
        self.arrived.load(Ordering::Acquire)
    }

    /// Takes the first and last txg of what is to be flushed.
    pub(crate) fn take_unflushed(&self) -> Option<(u64, u64)> {
        self.arrived.store(false, Ordering::Release);
        let first = self.unflushed[0].swap(u64::MAX, Ordering::AcqRel);
        let last = self.unflushed[1].swap(0, Ordering::AcqRel);
        (first <= last).then_some((first, last))
    }

    /// Forgets all failures: the administrator says that the leaf is well.
    pub(crate) fn clear(&self) {
        self.faulted.store(false, Ordering::Release);
        self.failures_in_a_row.store(0, Ordering::Relaxed);
    }

    /// Whether it is time to give the leaf up.
    pub(crate) fn is_hopeless(&self) -> bool {
        !self.is_faulted() && self.failures_in_a_row.load(Ordering::Relaxed) >= WRITE_FAILURES_MAX
    }
}
