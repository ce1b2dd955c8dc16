//! Writing to a leaf: what it takes, what it missed, and when it is given up.
//!
//! A leaf that does not take a write misses the txg of the block, which its dirty time log keeps
//! (format/1c 7). One that fails again and again is *faulted*: it gets no more writes, and it is
//! read from only when no other leaf has the bytes.

use crate::access::Entered;
use crate::error::LeafProblem;
use crate::leaf::{Leaf, Place};
use crate::queue::IoClass;
use crate::state::{VdevAux, VdevState};
use crate::txg_set::TxgSet;
use cenote_base::Txg;
use cenote_device::{Device, DeviceError, Lead, Purpose};
use std::io::IoSlice;
use std::sync::Arc;

/// How urgent a write is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Urgency {
    /// The class of the request.
    pub class: IoClass,
    /// Percent of what may be dirty that is dirty; counts for writes of transaction groups.
    pub load: u64,
    /// Whether it is for several blocks.
    pub is_joined: bool,
}

impl Leaf {
    /// Whether writes may go to the leaf at all.
    pub(crate) fn is_writable(&self) -> bool {
        let is_open = self.device.is_some() && !self.access.is_over();
        self.state.is_readable() && !self.is_given_up() && is_open
    }

    /// Whether nothing is written to the leaf any more since it was opened.
    pub(crate) fn is_given_up(&self) -> bool {
        self.written.is_faulted() || self.access.strayed().is_some()
    }

    /// Looks where the name of the device leads.
    pub(crate) fn look_at_name(&self) {
        let device = self.device.as_ref().filter(|_| !self.access.is_over());
        if device.is_some_and(|device| self.access.note_lead(device.lead())) {
            // A resilver that is under way does not bring everything.
            self.missed.note_outage();
        }
    }

    /// The leaf's state with what happened since it was opened.
    pub(crate) fn live_state(&self) -> (VdevState, VdevAux) {
        match self.access.strayed() {
            Some(Lead::Deleted) => (VdevState::Removed, VdevAux::Deleted),
            Some(_) => (VdevState::Removed, VdevAux::Replaced),
            None if self.written.is_faulted() => (VdevState::Faulted, VdevAux::ErrorsExceeded),
            None => (self.state, self.aux),
        }
    }

    /// The device, for a write that ends before it is released.
    fn writable_device(&self) -> Result<(&dyn Device, Entered<'_>), LeafProblem> {
        let (state, aux) = self.live_state();
        let absent = || LeafProblem::NotOpen(state, aux);
        let entered = self.access.enter().ok_or_else(absent)?;
        if let Some(lead) = self.access.strayed() {
            return Err(LeafProblem::Strayed(lead));
        }
        let can_write = self.state.is_readable() && !self.written.is_faulted();
        let device = self.device.as_deref().filter(|_| can_write);
        Ok((device.ok_or_else(absent)?, entered))
    }

    /// Does something with the device, and with the faults that are made on purpose.
    fn on<T>(&self, device: &dyn Device, act: impl FnOnce(&dyn Device) -> T) -> T {
        self.faults.with(device, self.env.as_ref(), act)
    }

    fn judge<T>(&self, result: Result<T, DeviceError>) -> Result<T, LeafProblem> {
        self.written.note_result(result.is_ok());
        result.map_err(|error| {
            self.counters.write_errors.add(1);
            LeafProblem::Device(error)
        })
    }

    /// Writes `slices`, which belong to `txg`, one after the other from `place` on.
    pub(crate) fn write(
        &self,
        place: Place,
        slices: &[IoSlice<'_>],
        txg: Txg,
        urgency: Urgency,
        purpose: Purpose,
    ) -> Result<(), LeafProblem> {
        let (device, _entered) = self.writable_device()?;
        let under_way = self.written.begin(txg);
        self.counters.write_operations.add(1);
        let admitted = match urgency.class {
            IoClass::AsyncWrite => self.queue.enter_writing(urgency.load, self.env.as_ref()),
            class => self.queue.enter(class, self.env.as_ref()),
        };
        let bytes = slices.iter().map(|slice| slice.len() as u64).sum();
        let started = self.env.monotonic();
        let result = self.on(device, |device| {
            device.write_vectored(place.on_device(), slices, purpose)
        });
        let times = [admitted.waited, started];
        self.note_request(urgency.class, times, bytes, urgency.is_joined);
        self.judge(result)?;
        under_way.arrived();
        self.counters.write_bytes.add(bytes);
        Ok(())
    }

    /// Writes again what should be at `place` already. If it is lost before it was flushed, the
    /// leaf lacks what it lacked before.
    pub(crate) fn repair(
        &self,
        place: Place,
        slices: &[IoSlice<'_>],
        class: IoClass,
        purpose: Purpose,
    ) -> Result<(), LeafProblem> {
        let (device, _entered) = self.writable_device()?;
        self.counters.write_operations.add(1);
        let admitted = self.queue.enter(class, self.env.as_ref());
        let bytes = slices.iter().map(|slice| slice.len() as u64).sum();
        let started = self.env.monotonic();
        let result = self.on(device, |device| {
            device.write_vectored(place.on_device(), slices, purpose)
        });
        let times = [admitted.waited, started];
        self.note_request(class, times, bytes, false);
        self.judge(result)?;
        self.written.repaired();
        self.counters.write_bytes.add(bytes);
        let repaired = match class {
            IoClass::Scrub => &self.counters.scan_repaired_bytes,
            _ => &self.counters.self_healed_bytes,
        };
        repaired.add(bytes);
        Ok(())
    }

    /// Writes `bytes` at a byte of the device: labels are outside of the allocatable area.
    pub(crate) fn write_raw(&self, at: u64, bytes: &[u8], txg: Txg) -> Result<(), LeafProblem> {
        let (device, _entered) = self.writable_device()?;
        let under_way = self.written.begin_label(txg);
        self.counters.write_operations.add(1);
        let admitted = self.queue.enter(IoClass::SyncWrite, self.env.as_ref());
        let started = self.env.monotonic();
        let slices = [IoSlice::new(bytes)];
        let result = self.on(device, |device| {
            device.write_vectored(at, &slices, Purpose::Metadata)
        });
        let times = [admitted.waited, started];
        self.note_request(IoClass::SyncWrite, times, bytes.len() as u64, false);
        self.judge(result)?;
        under_way.arrived();
        self.counters.write_bytes.add(bytes.len() as u64);
        Ok(())
    }

    /// Says that what was written so far completes the group `txg`; a flush follows.
    pub(crate) fn complete_group(&self, txg: Txg) {
        if let Ok((device, _entered)) = self.writable_device() {
            device.complete_group(txg.0);
        }
    }

    /// Makes durable what arrived before. Waits for a flush that another thread has under way.
    ///
    /// If that fails, it is in doubt whether the leaf has what was written since the last flush,
    /// and no resilver that is under way counts for the leaf.
    ///
    /// A device that strayed is flushed, too: it has the bytes if its name leads to it again. The
    /// next write to it reports that it is no longer the pool's device.
    pub(crate) fn flush(&self) -> Result<(), LeafProblem> {
        self.flush_by(|| {
            let strayed = self.access.strayed().and(self.device.as_deref());
            if let (Some(device), Some(_entered)) = (strayed, self.access.enter()) {
                return self.judge(self.on(device, |device| device.flush()));
            }
            let (device, _entered) = self.writable_device()?;
            self.judge(self.on(device, |device| device.flush()))
        })
    }

    /// The same on the device of a leaf that was released.
    pub(crate) fn flush_left(&self, device: &dyn Device) -> Result<(), LeafProblem> {
        let flushed = self.flush_by(|| self.judge(self.on(device, |device| device.flush())));
        self.missed.settle_doubts(false);
        flushed
    }

    fn flush_by(&self, flush: impl FnOnce() -> Result<(), LeafProblem>) -> Result<(), LeafProblem> {
        let failures = self.written.flush_failures();
        let Some(flushing) = self.written.begin_flush() else {
            // What was to be flushed was in a flush that others had under way.
            return match self.written.flush_failures() > failures {
                true => Err(LeafProblem::LostWrites),
                false => Ok(()),
            };
        };
        let flushed = flush();
        match flushed {
            Ok(()) => flushing.done(),
            Err(_) => {
                // What repairs wrote may be lost with it, whatever groups that was of.
                self.missed.note_outage();
                self.missed.doubt(&set_of(flushing.failed()));
            }
        }
        flushed
    }

    /// Counts everything that was written since the last flush as missed.
    pub(crate) fn forget_unflushed(&self) {
        self.missed.add(&set_of(self.written.forget_unflushed()));
    }

    /// Whether a device that was given up answers again: it reads, and a flush succeeds. Nothing
    /// of that is counted.
    pub(crate) fn answers(&self) -> bool {
        let flushes =
            |device: &Arc<dyn Device>| self.on(device.as_ref(), |device| device.flush()).is_ok();
        self.probe().is_ok() && self.device.as_ref().is_some_and(flushes)
    }

    /// Writes to space that holds nothing.
    pub(crate) fn initialize(&self, place: Place, bytes: &[u8]) -> Result<(), LeafProblem> {
        let (device, _entered) = self.writable_device()?;
        self.counters.write_operations.add(1);
        let admitted = self.queue.enter(IoClass::Initialize, self.env.as_ref());
        let started = self.env.monotonic();
        let result = self.on(device, |device| device.write_at(place.on_device(), bytes));
        let times = [admitted.waited, started];
        self.note_request(IoClass::Initialize, times, bytes.len() as u64, false);
        self.judge(result)?;
        self.counters.write_bytes.add(bytes.len() as u64);
        Ok(())
    }

    /// Says that `[offset, offset + length)` of the allocatable area holds nothing any more.
    pub(crate) fn discard(&self, offset: u64, length: u64) -> Result<(), LeafProblem> {
        let (device, _entered) = self.writable_device()?;
        let admitted = self.queue.enter(IoClass::Trim, self.env.as_ref());
        let started = self.env.monotonic();
        let start = Place::at(offset).on_device();
        let discarded = self.on(device, |device| device.discard(start, length));
        let times = [admitted.waited, started];
        self.note_request(IoClass::Trim, times, length, false);
        discarded.map_err(LeafProblem::Device)
    }
}

/// The first and last of these txgs, and all in between.
fn set_of(txgs: Option<(Txg, Txg)>) -> TxgSet {
    // Labels that belong to no group have txg 0.
    TxgSet::from_ranges(txgs.map(|(first, last)| first.max(Txg(1))..Txg(last.0 + 1)))
}

#[cfg(test)]
#[path = "leaf_write_tests.rs"]
mod tests;
