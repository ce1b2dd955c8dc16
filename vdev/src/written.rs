//! What a leaf was given and has not made durable yet, and when it is given up.
//!
//! A flush covers the writes that arrived before it began, and no others. Several threads flush
//! the same leaf: the group's commit before its uberblock, commits of intent logs at any time. So
//! a write counts when it *arrives*: were it counted when it is sent, a flush in between would
//! take the mark, and the next one would find nothing to do while the bytes are in a cache.
//!
//! **Invariants**: one flush of a leaf is under way at a time; a caller that needs its result waits
//! for its end. A flush that fails is counted. Its caller alone cannot draw the conclusions,
//! because the flush also took the marks of other callers' writes. These compare the counts
//! ([`crate::FlushMark`]).

use cenote_base::Txg;
use cenote_base::rt::{Condvar, Mutex, MutexGuard, ranks};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Writes that may fail in a row before the leaf is given up.
pub(crate) const WRITE_FAILURES_MAX: u32 = 10;

/// What writing did to a leaf.
#[derive(Debug, Default)]
pub(crate) struct WrittenState {
    /// Given up since it was opened.
    faulted: AtomicBool,
    failures_in_a_row: AtomicU32,
    unflushed: Mutex<Unflushed, ranks::LeafWrites>,
    flush_ended: Condvar,
}

#[derive(Debug, Default)]
struct Unflushed {
    /// How many writes of each txg are on their way.
    under_way: BTreeMap<Txg, u32>,
    /// How many of them are blocks.
    blocks_under_way: u32,
    arrived: Arrived,
    /// What the flush that is under way covers.
    flushing: Option<Arrived>,
    /// Flushes that failed.
    failures: u64,
    /// Those of them that may have lost blocks.
    losses: u64,
    /// Losses that a group's commit has taken into account.
    reported: u64,
    /// Threads that wait for a flush, or have not run since.
    #[cfg(test)]
    waiting: u32,
}

/// Writes that the device took.
#[derive(Clone, Copy, Debug, Default)]
struct Arrived {
    /// The first and last txg.
    txgs: Option<(Txg, Txg)>,
    /// There are repairs among them, which may be of any txg.
    is_repaired: bool,
    /// There are blocks among them that no other leaf may have: no labels, no repairs.
    has_blocks: bool,
}

impl Arrived {
    fn is_empty(&self) -> bool {
        self.txgs.is_none() && !self.is_repaired
    }

    fn add(&mut self, txg: Txg) {
        let (first, last) = self.txgs.unwrap_or((txg, txg));
        self.txgs = Some((first.min(txg), last.max(txg)));
    }
}

impl Unflushed {
    /// The first and last txg of all that would be lost with the device's cache now.
    ///
    /// What arrives while a flush is under way may be lost with it, and the flush after that one
    /// says nothing of it.
    fn at_risk(&self, covered: Arrived) -> Option<(Txg, Txg)> {
        let mut all = covered;
        if let Some((first, last)) = self.arrived.txgs {
            all.add(first);
            all.add(last);
        }
        self.under_way.keys().for_each(|txg| all.add(*txg));
        all.txgs
    }

    /// Whether there are blocks among all that would be lost with the device's cache now.
    fn risks_blocks(&self, covered: Arrived) -> bool {
        covered.has_blocks || self.arrived.has_blocks || self.blocks_under_way > 0
    }
}

/// A write on its way; it arrived only if that is said.
#[derive(Debug)]
pub(crate) struct UnderWay<'a> {
    state: &'a WrittenState,
    txg: Txg,
    is_block: bool,
    has_arrived: bool,
}

impl UnderWay<'_> {
    /// The device took it.
    pub(crate) fn arrived(mut self) {
        self.has_arrived = true;
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut unflushed = self.state.lock();
        unflushed.blocks_under_way -= u32::from(self.is_block);
        if let Some(count) = unflushed.under_way.get_mut(&self.txg) {
            *count -= 1;
            if *count == 0 {
                unflushed.under_way.remove(&self.txg);
            }
        }
        if self.has_arrived {
            unflushed.arrived.add(self.txg);
            unflushed.arrived.has_blocks |= self.is_block;
        }
    }
}

/// A flush under way; it failed unless that is said.
#[derive(Debug)]
pub(crate) struct Flushing<'a> {
    state: &'a WrittenState,
    is_done: bool,
}

impl Flushing<'_> {
    /// Everything that arrived before the flush began is durable.
    pub(crate) fn done(mut self) {
        self.is_done = true;
    }

    /// The flush failed: the first and last txg of what may be lost.
    pub(crate) fn failed(self) -> Option<(Txg, Txg)> {
        let unflushed = self.state.lock();
        unflushed.at_risk(unflushed.flushing.unwrap_or_default())
    }
}

impl Drop for Flushing<'_> {
    fn drop(&mut self) {
        let mut unflushed = self.state.lock();
        let covered = unflushed.flushing.take().unwrap_or_default();
        unflushed.failures += u64::from(!self.is_done);
        let is_loss = !self.is_done && unflushed.risks_blocks(covered);
        unflushed.losses += u64::from(is_loss);
        drop(unflushed);
        self.state.flush_ended.notify_all();
    }
}

impl WrittenState {
    fn lock(&self) -> MutexGuard<'_, Unflushed> {
        self.unflushed.lock()
    }

    /// Whether the leaf was given up.
    pub(crate) fn is_faulted(&self) -> bool {
        self.faulted.load(Ordering::Acquire)
    }

    /// Gives the leaf up; says whether it was in use before.
    pub(crate) fn set_faulted(&self) -> bool {
        !self.faulted.swap(true, Ordering::AcqRel)
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

    /// Notes how a request ended.
    pub(crate) fn note_result(&self, is_ok: bool) {
        match is_ok {
            true => self.failures_in_a_row.store(0, Ordering::Relaxed),
            false => {
                self.failures_in_a_row.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Notes that a block of `txg` is sent.
    pub(crate) fn begin(&self, txg: Txg) -> UnderWay<'_> {
        self.begin_any(txg, true)
    }

    /// Notes that a part of a label is sent. All devices have the same: one more or less that has
    /// it costs nothing.
    pub(crate) fn begin_label(&self, txg: Txg) -> UnderWay<'_> {
        self.begin_any(txg, false)
    }

    fn begin_any(&self, txg: Txg, is_block: bool) -> UnderWay<'_> {
        let mut unflushed = self.lock();
        *unflushed.under_way.entry(txg).or_default() += 1;
        unflushed.blocks_under_way += u32::from(is_block);
        drop(unflushed);
        UnderWay {
            state: self,
            txg,
            is_block,
            has_arrived: false,
        }
    }

    /// Notes that a repair arrived.
    pub(crate) fn repaired(&self) {
        self.lock().arrived.is_repaired = true;
    }

    /// Whether a flush would do anything, or another thread's is under way.
    pub(crate) fn has_unflushed(&self) -> bool {
        let unflushed = self.lock();
        !unflushed.arrived.is_empty() || unflushed.flushing.is_some()
    }

    /// Whether the device took writes that may not be durable yet.
    pub(crate) fn has_arrived(&self) -> bool {
        let unflushed = self.lock();
        let flushing = unflushed.flushing.and_then(|covered| covered.txgs);
        let is_lost = unflushed.losses > unflushed.reported;
        unflushed.arrived.txgs.is_some() || flushing.is_some() || is_lost
    }

    /// Begins a flush of everything that has arrived, once no other is under way; `None` if there
    /// is nothing left then.
    pub(crate) fn begin_flush(&self) -> Option<Flushing<'_>> {
        let unflushed = self.lock();
        #[cfg(test)]
        let unflushed = {
            let mut unflushed = unflushed;
            unflushed.waiting += 1;
            unflushed
        };
        let mut unflushed = self
            .flush_ended
            .wait_while(unflushed, |unflushed| unflushed.flushing.is_some());
        #[cfg(test)]
        {
            unflushed.waiting -= 1;
        }
        if unflushed.arrived.is_empty() {
            return None;
        }
        unflushed.flushing = Some(std::mem::take(&mut unflushed.arrived));
        Some(Flushing {
            state: self,
            is_done: false,
        })
    }

    /// Whether a thread waits for the flush that is under way.
    #[cfg(test)]
    pub(crate) fn is_waited_for(&self) -> bool {
        self.lock().waiting > 0
    }

    /// Flushes that failed so far.
    pub(crate) fn flush_failures(&self) -> u64 {
        self.lock().failures
    }

    /// Those of them that may have lost blocks.
    pub(crate) fn losses(&self) -> u64 {
        self.lock().losses
    }

    /// Whether a flush lost blocks since a group's commit asked last.
    pub(crate) fn take_unreported(&self) -> bool {
        let mut unflushed = self.lock();
        let losses = unflushed.losses;
        std::mem::replace(&mut unflushed.reported, losses) < losses
    }

    /// Forgets what was not flushed: the first and last txg of what may be lost.
    pub(crate) fn forget_unflushed(&self) -> Option<(Txg, Txg)> {
        let mut unflushed = self.lock();
        let mut arrived = std::mem::take(&mut unflushed.arrived);
        if let Some((first, last)) = unflushed.flushing.and_then(|covered| covered.txgs) {
            arrived.add(first);
            arrived.add(last);
        }
        unflushed.reported = unflushed.losses;
        unflushed.at_risk(arrived)
    }

    /// What flushes lost is known to be there, or elsewhere.
    pub(crate) fn accept_losses(&self) {
        let _ = self.take_unreported();
    }
}
