//! Writing to a leaf: what it takes, what it missed, and when it is given up.
//!
//! A leaf that does not take a write misses the txg of the block, which its dirty time log keeps
//! (format/1c 7). One that fails again and again is *faulted*: nothing is written to it any
//! more, and it is read from only when nobody else has the bytes.

use crate::access::Entered;
use crate::error::LeafProblem;
use crate::leaf::{Leaf, Place};
use crate::queue::IoClass;
use crate::state::{VdevAux, VdevState};
use cenote_base::Txg;
use cenote_device::{Device, DeviceError, Purpose};
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Writes that may fail in a row before the leaf is given up.
const WRITE_FAILURES_MAX: u32 = 10;

/// What writing did to a leaf.
#[derive(Debug)]
pub(crate) struct WrittenState {
    /// Given up since it was opened.
    faulted: AtomicBool,
    failures_in_a_row: AtomicU32,
    /// The first and last txg of what was written since the last flush; none if the first is
    /// larger.
    unflushed: [AtomicU64; 2],
    /// The device took something since the last flush.
    arrived: AtomicBool,
    /// Something was repaired since the last flush.
    repaired: AtomicBool,
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

    fn begin(&self, txg: Txg) {
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
    fn take_unflushed(&self) -> Option<(u64, u64)> {
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

impl Leaf {
    /// Whether writes may go to the leaf at all.
    pub(crate) fn is_writable(&self) -> bool {
        let is_open = self.device.is_some() && !self.access.is_over();
        self.state.is_readable() && !self.written.is_faulted() && is_open
    }

    /// The leaf's state with what happened since it was opened.
    pub(crate) fn live_state(&self) -> (VdevState, VdevAux) {
        match self.written.is_faulted() {
            true => (VdevState::Faulted, VdevAux::ErrorsExceeded),
            false => (self.state, self.aux),
        }
    }

    /// The device, for a write that ends before it is let go.
    fn writable_device(&self) -> Result<(&dyn Device, Entered<'_>), LeafProblem> {
        let (state, aux) = self.live_state();
        let absent = || LeafProblem::NotOpen(state, aux);
        let entered = self.access.enter().ok_or_else(absent)?;
        let can_write = self.state.is_readable() && !self.written.is_faulted();
        let device = self.device.as_deref().filter(|_| can_write);
        Ok((device.ok_or_else(absent)?, entered))
    }

    fn judge<T>(&self, result: Result<T, DeviceError>) -> Result<T, LeafProblem> {
        match result {
            Ok(value) => {
                self.written.failures_in_a_row.store(0, Ordering::Relaxed);
                Ok(value)
            }
            Err(error) => {
                self.counters.write_errors.add(1);
                let failures = &self.written.failures_in_a_row;
                failures.fetch_add(1, Ordering::Relaxed);
                Err(LeafProblem::Device(error))
            }
        }
    }

    /// Writes `slices`, which belong to `txg`, one after the other from `place` on, while `load`
    /// percent of what may be dirty is dirty.
    pub(crate) fn write(
        &self,
        place: Place,
        slices: &[IoSlice<'_>],
        txg: Txg,
        load: u64,
        purpose: Purpose,
    ) -> Result<(), LeafProblem> {
        let (device, _entered) = self.writable_device()?;
        self.written.begin(txg);
        self.counters.write_operations.add(1);
        let _admitted = self.queue.enter_writing(load);
        let started = self.env.monotonic();
        let result = device.write_vectored(place.on_device(), slices, purpose);
        self.note_duration(started);
        self.judge(result)?;
        self.written.arrived.store(true, Ordering::Release);
        let bytes = slices.iter().map(|slice| slice.len() as u64).sum();
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
        let _admitted = self.queue.enter(class);
        let started = self.env.monotonic();
        let result = device.write_vectored(place.on_device(), slices, purpose);
        self.note_duration(started);
        self.judge(result)?;
        self.written.repaired.store(true, Ordering::Release);
        let bytes = slices.iter().map(|slice| slice.len() as u64).sum();
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
        self.written.begin(txg);
        self.counters.write_operations.add(1);
        let _admitted = self.queue.enter(IoClass::SyncWrite);
        let started = self.env.monotonic();
        let result = device.write_vectored(at, &[IoSlice::new(bytes)], Purpose::Metadata);
        self.note_duration(started);
        self.judge(result)?;
        self.written.arrived.store(true, Ordering::Release);
        self.counters.write_bytes.add(bytes.len() as u64);
        Ok(())
    }

    /// Says that what was written so far completes the group `txg`; a flush follows.
    pub(crate) fn complete_group(&self, txg: Txg) {
        if let Ok((device, _entered)) = self.writable_device() {
            device.complete_group(txg.0);
        }
    }

    /// Makes durable what was written since the last flush.
    ///
    /// If that fails, everything written since then counts as missed, and no resilver that is under
    /// way counts for the leaf.
    pub(crate) fn flush(&self) -> Result<(), LeafProblem> {
        self.flush_by(|| {
            let (device, _entered) = self.writable_device()?;
            self.judge(device.flush())
        })
    }

    /// The same on the device of a leaf that was let go.
    pub(crate) fn flush_left(&self, device: &dyn Device) -> Result<(), LeafProblem> {
        self.flush_by(|| self.judge(device.flush()))
    }

    fn flush_by(&self, flush: impl FnOnce() -> Result<(), LeafProblem>) -> Result<(), LeafProblem> {
        let is_repaired = self.written.repaired.swap(false, Ordering::AcqRel);
        let unflushed = self.written.take_unflushed();
        if unflushed.is_none() && !is_repaired {
            return Ok(());
        }
        let flushed = flush();
        if flushed.is_err() {
            // What repairs wrote may be lost with it, whatever groups that was of.
            self.missed.note_outage();
            if let Some((first, last)) = unflushed {
                (first..=last).for_each(|txg| self.missed.note(Txg(txg)));
            }
        }
        flushed
    }

    /// Counts everything that was written since the last flush as missed.
    pub(crate) fn forget_unflushed(&self) {
        if let Some((first, last)) = self.written.take_unflushed() {
            (first..=last).for_each(|txg| self.missed.note(Txg(txg)));
        }
    }

    /// Writes to space that holds nothing.
    pub(crate) fn initialize(&self, place: Place, bytes: &[u8]) -> Result<(), LeafProblem> {
        let (device, _entered) = self.writable_device()?;
        self.counters.write_operations.add(1);
        let _admitted = self.queue.enter(IoClass::Initialize);
        self.judge(device.write_at(place.on_device(), bytes))?;
        self.counters.write_bytes.add(bytes.len() as u64);
        Ok(())
    }

    /// Says that `[offset, offset + length)` of the allocatable area holds nothing any more.
    pub(crate) fn discard(&self, offset: u64, length: u64) -> Result<(), LeafProblem> {
        let (device, _entered) = self.writable_device()?;
        let _admitted = self.queue.enter(IoClass::Trim);
        let discarded = device.discard(Place::at(offset).on_device(), length);
        discarded.map_err(LeafProblem::Device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_base::RealEnv;
    use cenote_device::{FaultyDevice, MemoryDevice};
    use std::sync::Arc;

    #[test]
    fn failed_writes_are_missed_and_many_are_the_end() {
        let memory = MemoryDevice::new("m", vec![0; 5 << 20]);
        let device = Arc::new(FaultyDevice::new(Arc::new(memory)));
        let opened = Some(Arc::clone(&device) as Arc<dyn Device>);
        let env = Arc::new(RealEnv::new());
        let leaf = Leaf::new(0, opened, VdevState::Healthy, VdevAux::None, env);
        let write = |offset, txg| {
            let slices = [IoSlice::new(&[1; 512])];
            leaf.write(Place::at(offset), &slices, txg, 100, Purpose::Contents)
        };
        assert!(write(0, Txg(5)).is_ok());
        assert!(leaf.flush().is_ok());
        for _ in 0..WRITE_FAILURES_MAX {
            assert!(!leaf.written.is_hopeless());
            let beyond = write(1 << 30, Txg(6));
            assert!(beyond.is_err());
        }
        assert!(leaf.written.is_hopeless());
        assert!(leaf.written.set_faulted());
        assert!(write(0, Txg(8)).is_err());
        assert_eq!(leaf.live_state().0, VdevState::Faulted);
        assert_eq!(
            leaf.counters.write_errors.get(),
            u64::from(WRITE_FAILURES_MAX)
        );
    }
}
