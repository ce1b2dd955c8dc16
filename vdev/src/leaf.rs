//! A device in the tree: its counters, what it missed, and reading from it.

use crate::access::Access;
use crate::counters::VdevCounters;
use crate::error::LeafProblem;
use crate::io_context::{IoContext, ReadFrom};
use crate::missed::Missed;
use crate::queue::{IoClass, Queue};
use crate::state::{VdevAux, VdevState};
use crate::statistics::Done;
use crate::window::WindowPlace;
use crate::written::WrittenState;
use cenote_base::{Env, Txg};
use cenote_device::{Device, DeviceError, DeviceKind};
use cenote_injection::{Drilled, LeafFaults};
use cenote_ondisk::label::{BOOT_REGION_OFFSET, DATA_OFFSET};
use std::io::IoSliceMut;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// A place on a leaf, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// From the start of the allocatable area, or of the boot region.
    pub offset: u64,
    /// In the boot region: the scratch area of a raidz expansion.
    pub in_scratch: bool,
}

impl Place {
    pub(crate) fn at(offset: u64) -> Self {
        Self {
            offset,
            in_scratch: false,
        }
    }

    pub(crate) fn on_device(self) -> u64 {
        let start = if self.in_scratch {
            BOOT_REGION_OFFSET
        } else {
            DATA_OFFSET
        };
        // Past the end of any device when the sum does not fit, so the device refuses it.
        start.saturating_add(self.offset)
    }
}

/// A leaf vdev.
#[derive(Debug)]
pub(crate) struct Leaf {
    /// Position among the nodes of the tree.
    pub node: usize,
    pub device: Option<Arc<dyn Device>>,
    pub state: VdevState,
    pub aux: VdevAux,
    pub counters: Arc<VdevCounters>,
    pub(crate) env: Arc<dyn Env>,
    in_flight: AtomicU32,
    /// Reads that failed since the last one that did not.
    failures_in_a_row: AtomicU32,
    /// It is slow: others are asked first, and what it has is computed.
    pub(crate) sits_out: Arc<AtomicBool>,
    /// Whether the device is still the pool's.
    pub(crate) access: Arc<Access>,
    /// What it missed.
    pub(crate) missed: Arc<Missed>,
    /// What writing did to it.
    pub(crate) written: Arc<WrittenState>,
    /// Admits requests to the device.
    pub(crate) queue: Arc<Queue>,
    /// What is wrong with it on purpose.
    pub(crate) faults: Arc<LeafFaults>,
}

/// After so many failures in a row, others are asked first: a dying disk may take half a minute
/// for each.
const FAILURES_MAX: u32 = 16;

/// What is read to see whether a device is there: the blank beginning of its first label.
const PROBE_SIZE: usize = 4 << 10;

/// How well a leaf serves a read; smaller is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fitness {
    /// Should have the bytes.
    Good,
    /// Should have them too, but lately every read failed, or it is slow.
    Failing,
    /// Missed the txg in which the block was written.
    Stale,
    /// Given up, or out of use in a pool that is only read: for blocks that no other has.
    LastResort,
}

impl Leaf {
    pub(crate) fn new(
        node: usize,
        device: Option<Arc<dyn Device>>,
        state: VdevState,
        aux: VdevAux,
        env: Arc<dyn Env>,
    ) -> Self {
        let queue = Arc::<Queue>::default();
        let kind = device.as_ref().map(|device| device.nature().kind);
        if kind == Some(DeviceKind::Store) {
            queue.deepen();
        }
        Self {
            node,
            device,
            state,
            aux,
            counters: Arc::new(VdevCounters::of_leaf()),
            env,
            in_flight: AtomicU32::new(0),
            failures_in_a_row: AtomicU32::new(0),
            sits_out: Arc::default(),
            access: Arc::default(),
            missed: Arc::default(),
            written: Arc::default(),
            queue,
            faults: Arc::default(),
        }
    }

    /// Takes over the state that the same leaf had in the tree before this one.
    pub(crate) fn go_on(&mut self, old: &Self) {
        self.counters = Arc::clone(&old.counters);
        self.missed = Arc::clone(&old.missed);
        self.written = Arc::clone(&old.written);
        self.queue = Arc::clone(&old.queue);
        self.sits_out = Arc::clone(&old.sits_out);
        self.faults = Arc::clone(&old.faults);
        if self.is_in_store() {
            self.queue.deepen();
        }
        match (&self.device, &old.device) {
            (Some(device), Some(before)) if Arc::ptr_eq(device, before) => {
                self.access = Arc::clone(&old.access);
                // A faulted leaf keeps its device open and is given nothing.
                if !self.state.is_readable() || !old.state.is_readable() {
                    self.missed.note_outage();
                }
            }
            _ => self.missed.note_outage(),
        }
    }

    /// How well the leaf serves a block born in `birth`; `None` if it has no device.
    pub(crate) fn fitness(&self, birth: Txg) -> Option<Fitness> {
        self.device.as_ref().filter(|_| !self.access.is_over())?;
        Some(if !self.state.is_readable() || self.is_given_up() {
            Fitness::LastResort
        } else if self.missed.contains(birth) {
            Fitness::Stale
        } else if self.failures_in_a_row.load(Ordering::Relaxed) >= FAILURES_MAX
            || self.sits_out.load(Ordering::Relaxed)
        {
            Fitness::Failing
        } else {
            Fitness::Good
        })
    }

    /// Notes a request that the device began to carry out at `started`.
    pub(crate) fn note_request(
        &self,
        class: IoClass,
        [queued, started]: [Duration; 2],
        bytes: u64,
        is_joined: bool,
    ) -> Duration {
        let took = self.env.monotonic().saturating_sub(started);
        self.counters.note_duration(took);
        self.counters.requests.note(Done {
            class,
            queued,
            took,
            bytes,
            is_joined,
        });
        took
    }

    /// Whether each request is dear and many at once are not.
    pub(crate) fn is_in_store(&self) -> bool {
        let nature = self.device.as_ref().map(|device| device.nature().kind);
        nature == Some(DeviceKind::Store)
    }

    /// Has a device in a store fetch what is read next, all at once: parts as places and lengths.
    pub(crate) fn prefetch(&self, parts: impl Iterator<Item = (Place, usize)>, io: &IoContext) {
        if let Some(device) = self.device.as_ref().filter(|_| !self.access.is_over()) {
            let bytes = |(place, length): (Place, usize)| {
                let start = place.on_device();
                start..start.saturating_add(length as u64)
            };
            let ranges: Vec<Range<u64>> = parts.map(bytes).collect();
            let _admitted = self.queue.enter(io.class, self.env.as_ref());
            match io.from {
                ReadFrom::Nearest => device.prefetch(&ranges),
                ReadFrom::Medium => device.prefetch_medium(&ranges),
            }
        }
    }

    /// Says that what the device has is to be verified: see [`Device::begin_verification`].
    pub(crate) fn begin_verification(&self) {
        if let Some(device) = self.device.as_ref().filter(|_| !self.access.is_over()) {
            device.begin_verification();
        }
    }

    /// Whether the device is there and answers at all, which is not counted as a read.
    pub(crate) fn probe(&self) -> Result<(), LeafProblem> {
        let closed = || LeafProblem::NotOpen(self.state, self.aux);
        let device = self.device.as_ref().ok_or_else(closed)?;
        self.look_at_name();
        if let Some(lead) = self.access.strayed() {
            return Err(LeafProblem::Strayed(lead));
        }
        let drilled = self.drilled(device.as_ref()).probing();
        let read = drilled.read_vec(0, PROBE_SIZE);
        read.map(drop).map_err(LeafProblem::Device)
    }

    /// The device with the faults that are made on purpose.
    pub(crate) fn drilled<'a>(&'a self, device: &'a dyn Device) -> Drilled<'a> {
        Drilled::new(device, &self.faults, self.env.as_ref())
    }

    /// Reads under way or waiting.
    pub(crate) fn load(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Has a read of the background wait while the device is used; how long it did.
    fn make_room(&self, class: IoClass) -> Duration {
        let courtesy = &self.queue.courtesy;
        match class {
            IoClass::SyncRead | IoClass::AsyncRead => courtesy.note_user(self.env.monotonic()),
            IoClass::Scrub => {
                let delay = courtesy.delay(self.env.monotonic());
                if !delay.is_zero() {
                    self.env.sleep(delay);
                }
                return delay;
            }
            _ => {}
        }
        Duration::ZERO
    }

    fn counted<T>(
        &self,
        length: usize,
        io: &IoContext,
        is_joined: bool,
        read: impl FnOnce(&dyn Device) -> Result<T, DeviceError>,
    ) -> Result<T, LeafProblem> {
        let class = io.class;
        let Some(device) = &self.device else {
            return Err(LeafProblem::NotOpen(self.state, self.aux));
        };
        let held_back = self.make_room(class);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let admitted = self.queue.enter(class, self.env.as_ref());
        let queued = admitted.waited + held_back;
        let started = self.env.monotonic();
        let result = match self.faults.is_empty() && io.drill.is_none() {
            true => read(device.as_ref()),
            false => read(&self.drilled(device.as_ref()).for_block(io.drill)),
        };
        let took = self.note_request(class, [queued, started], length as u64, is_joined);
        if class == IoClass::Scrub {
            self.queue.courtesy.note_background(took);
        }
        drop(admitted);
        let in_flight = self.in_flight.fetch_sub(1, Ordering::Relaxed);
        assert!(in_flight > 0, "a request that is done was in flight");
        self.counters.read_operations.add(1);
        match result {
            Ok(value) => {
                self.counters.read_bytes.add(length as u64);
                self.failures_in_a_row.store(0, Ordering::Relaxed);
                Ok(value)
            }
            // The device works, and knows that it does not have what was written.
            Err(error) if error.is_damage() => {
                self.counters.checksum_errors.add(1);
                Err(LeafProblem::Device(error))
            }
            Err(error) => {
                self.counters.read_errors.add(1);
                self.failures_in_a_row.fetch_add(1, Ordering::Relaxed);
                Err(LeafProblem::Device(error))
            }
        }
    }

    /// Fills `buffer` from `place`.
    pub(crate) fn read_into(
        &self,
        place: Place,
        buffer: &mut [u8],
        io: &IoContext,
    ) -> Result<(), LeafProblem> {
        if let Some(windows) = &io.windows
            && windows.fill(self.window_place(place), buffer)
        {
            return Ok(());
        }
        self.counted(buffer.len(), io, false, |device| {
            read_from(device, io.from, place.on_device(), buffer)
        })
    }

    /// As [`Self::read_into`], of several neighbouring blocks.
    pub(crate) fn read_joined(
        &self,
        place: Place,
        buffer: &mut [u8],
        io: &IoContext,
    ) -> Result<(), LeafProblem> {
        if let Some(windows) = &io.windows
            && windows.fill(self.window_place(place), buffer)
        {
            return Ok(());
        }
        self.counted(buffer.len(), io, true, |device| {
            read_from(device, io.from, place.on_device(), buffer)
        })
    }

    /// What a place is called among those that were read ahead.
    pub(crate) fn window_place(&self, place: Place) -> WindowPlace {
        WindowPlace {
            leaf: std::ptr::from_ref(self).addr(),
            in_scratch: place.in_scratch,
            offset: place.offset,
        }
    }

    /// Fills the buffers, one for each block and each gap, with the bytes from `place` on.
    pub(crate) fn read_vectored(
        &self,
        place: Place,
        buffers: &mut [IoSliceMut<'_>],
        io: &IoContext,
    ) -> Result<(), LeafProblem> {
        let length = buffers.iter().map(|buffer| buffer.len()).sum();
        self.counted(length, io, buffers.len() > 1, |device| {
            if io.from == ReadFrom::Nearest {
                return device.read_vectored(place.on_device(), buffers);
            }
            let mut offset = place.on_device();
            for buffer in buffers {
                device.read_medium(offset, buffer)?;
                offset = offset.saturating_add(buffer.len() as u64);
            }
            Ok(())
        })
    }

    /// The `length` bytes at `place`.
    pub(crate) fn read_vec(
        &self,
        place: Place,
        length: usize,
        io: &IoContext,
    ) -> Result<Vec<u8>, LeafProblem> {
        if let Some(windows) = &io.windows {
            let mut bytes = vec![0; length];
            if windows.fill(self.window_place(place), &mut bytes) {
                return Ok(bytes);
            }
        }
        self.counted(length, io, false, |device| {
            if io.from == ReadFrom::Nearest {
                return device.read_vec(place.on_device(), length);
            }
            let mut bytes = vec![0; length];
            device.read_medium(place.on_device(), &mut bytes)?;
            Ok(bytes)
        })
    }
}

/// Reads the copy of a device that is meant.
fn read_from(
    device: &dyn Device,
    from: ReadFrom,
    offset: u64,
    buffer: &mut [u8],
) -> Result<(), DeviceError> {
    match from {
        ReadFrom::Nearest => device.read_at(offset, buffer),
        ReadFrom::Medium => device.read_medium(offset, buffer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_base::RealEnv;
    use cenote_device::MemoryDevice;

    fn leaf_of(device: Option<Arc<dyn Device>>, state: VdevState, aux: VdevAux) -> Leaf {
        Leaf::new(0, device, state, aux, Arc::new(RealEnv::new()))
    }

    #[test]
    fn what_a_leaf_missed_is_read_from_it_last() {
        let device = Arc::new(MemoryDevice::new("m", vec![0; 16]));
        let leaf = leaf_of(Some(device), VdevState::Healthy, VdevAux::None);
        assert_eq!(leaf.fitness(Txg(5)), Some(Fitness::Good));
        leaf.missed.note(Txg(5));
        assert_eq!(leaf.fitness(Txg(5)), Some(Fitness::Stale));
        assert_eq!(leaf.fitness(Txg(6)), Some(Fitness::Good));
    }

    #[test]
    fn a_leaf_that_only_fails_is_asked_after_others_until_it_recovers() {
        let device = Arc::new(MemoryDevice::new("m", vec![0; 5 << 20]));
        let leaf = leaf_of(Some(device), VdevState::Healthy, VdevAux::None);
        for _ in 0..FAILURES_MAX {
            assert_eq!(leaf.fitness(Txg(5)), Some(Fitness::Good));
            assert!(
                leaf.read_vec(Place::at(1 << 30), 1, &IoContext::USER)
                    .is_err()
            );
        }
        assert_eq!(leaf.fitness(Txg(5)), Some(Fitness::Failing));
        assert!(leaf.read_vec(Place::at(0), 1, &IoContext::USER).is_ok());
        assert_eq!(leaf.fitness(Txg(5)), Some(Fitness::Good));
    }

    #[test]
    fn reads_and_failures_are_counted() {
        let device = Arc::new(MemoryDevice::new("m", vec![7; 5 << 20]));
        let leaf = leaf_of(Some(device), VdevState::Healthy, VdevAux::None);
        assert_eq!(
            leaf.read_vec(Place::at(0), 3, &IoContext::USER)
                .expect("in range"),
            [7; 3]
        );
        assert!(
            leaf.read_vec(Place::at(1 << 20), 1, &IoContext::USER)
                .is_err()
        );
        assert!(
            leaf.read_vec(Place::at(u64::MAX), 1, &IoContext::USER)
                .is_err()
        );
        assert_eq!(leaf.counters.read_operations.get(), 3);
        assert_eq!(leaf.counters.read_bytes.get(), 3);
        assert_eq!(leaf.counters.read_errors.get(), 2);
        let gone = leaf_of(None, VdevState::CannotOpen, VdevAux::OpenFailed);
        assert_eq!(gone.fitness(Txg(1)), None);
        assert!(gone.read_vec(Place::at(0), 1, &IoContext::USER).is_err());
        assert_eq!(gone.counters.read_errors.get(), 0, "nothing was tried");
    }
}
