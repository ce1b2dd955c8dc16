//! Writes, flushes and failures of one leaf.

use super::*;
use crate::io_context::IoContext;
use crate::written::WRITE_FAILURES_MAX;
use cenote_base::RealEnv;
use cenote_base::rt::{Condvar, Mutex, ranks};
use cenote_device::{FaultyDevice, MemoryDevice, Nature};
use cenote_injection::{Chance, LeafError, LeafFault};
use std::path::Path;
use std::sync::Arc;

const URGENT: Urgency = Urgency {
    class: IoClass::SyncWrite,
    load: 0,
    is_joined: false,
};

fn leaf_on(device: Arc<dyn Device>) -> Leaf {
    let env = Arc::new(RealEnv::new());
    Leaf::new(0, Some(device), VdevState::Healthy, VdevAux::None, env)
}

fn write(leaf: &Leaf, at: u64, txg: u64) -> Result<(), LeafProblem> {
    leaf.write(
        Place::at(at),
        &[IoSlice::new(&[1; 512])],
        Txg(txg),
        URGENT,
        Purpose::Contents,
    )
}

#[test]
fn failed_writes_are_missed_and_many_are_the_end() {
    let memory = MemoryDevice::new("m", vec![0; 5 << 20]);
    let device = Arc::new(FaultyDevice::new(Arc::new(memory)));
    let leaf = leaf_on(device);
    assert!(write(&leaf, 0, 5).is_ok());
    assert!(leaf.flush().is_ok());
    for _ in 0..WRITE_FAILURES_MAX {
        assert!(!leaf.written.is_hopeless());
        assert!(write(&leaf, 1 << 30, 6).is_err());
    }
    assert!(leaf.written.is_hopeless());
    assert!(leaf.written.set_faulted());
    assert!(write(&leaf, 0, 8).is_err());
    assert_eq!(leaf.live_state().0, VdevState::Faulted);
    assert_eq!(
        leaf.counters.write_errors.get(),
        u64::from(WRITE_FAILURES_MAX)
    );
}

/// What is injected is counted as a real failure is, and ends with the fault.
#[test]
fn injected_faults_are_failures_of_the_leaf() {
    let memory = MemoryDevice::new("m", vec![0; 8 << 20]);
    let leaf = leaf_on(Arc::new(memory));
    let fault = LeafFault {
        error: LeafError::Io,
        work: None,
        chance: Chance::ALWAYS,
        label: None,
    };
    leaf.faults.add(1, fault);
    let read = || leaf.read_vec(Place::at(0), 512, &IoContext::USER);
    assert!(read().is_err() && write(&leaf, 0, 5).is_err());
    assert!(leaf.write_raw(0, &[1; 512], Txg(5)).is_ok() && leaf.probe().is_ok());
    assert!(leaf.flush().is_err());
    assert_eq!(leaf.counters.read_errors.get(), 1);
    assert_eq!(leaf.counters.write_errors.get(), 2);
    leaf.faults.remove(1);
    assert!(read().is_ok() && write(&leaf, 0, 5).is_ok() && leaf.flush().is_ok());
}

/// What a [`SlowDevice`] is doing, and what it is allowed to.
#[derive(Debug, Default)]
struct Progress {
    writes_begun: u32,
    writes_allowed: u32,
    flushes_begun: u32,
    flushes_allowed: u32,
    flushes_ended: u32,
    flushes_fail: bool,
}

/// A device whose requests end when the test says so.
#[derive(Debug)]
struct SlowDevice {
    memory: MemoryDevice,
    progress: Mutex<Progress, ranks::DeviceFaults>,
    changed: Condvar,
}

impl SlowDevice {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            memory: MemoryDevice::new("slow", vec![0; 5 << 20]),
            progress: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    fn change(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress.lock());
        self.changed.notify_all();
    }

    fn wait(&self, is_so: impl Fn(&Progress) -> bool) {
        let progress = self.progress.lock();
        let waited = self
            .changed
            .wait_while(progress, |progress| !is_so(progress));
        drop(waited);
    }
}

impl Device for SlowDevice {
    fn size(&self) -> u64 {
        self.memory.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.memory.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.change(|progress| progress.writes_begun += 1);
        self.wait(|progress| progress.writes_allowed >= progress.writes_begun);
        self.memory.write_at(offset, bytes)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.change(|progress| progress.flushes_begun += 1);
        self.wait(|progress| progress.flushes_allowed >= progress.flushes_begun);
        let mut fails = false;
        self.change(|progress| {
            progress.flushes_ended += 1;
            fails = progress.flushes_fail;
        });
        match fails {
            true => self.memory.read_at(u64::MAX, &mut [0]),
            false => Ok(()),
        }
    }

    fn discard(&self, _: u64, _: u64) -> Result<(), DeviceError> {
        Ok(())
    }

    fn nature(&self) -> Nature {
        self.memory.nature()
    }

    fn path(&self) -> &Path {
        self.memory.path()
    }
}

/// Regression: a leaf counted a write as written when it was sent. Another thread's flush, while
/// the write was on its way, took the mark. The flush before the uberblock then found nothing to
/// do, and the uberblock was written before its data was durable.
#[test]
fn a_flush_does_not_cover_writes_that_arrive_after_it_began() {
    let device = SlowDevice::new();
    device.change(|progress| {
        progress.writes_allowed = 1;
        progress.flushes_allowed = u32::MAX;
    });
    let leaf = leaf_on(Arc::clone(&device) as Arc<dyn Device>);
    assert!(write(&leaf, 0, 5).is_ok());
    std::thread::scope(|scope| {
        let late = scope.spawn(|| write(&leaf, 4096, 5));
        device.wait(|progress| progress.writes_begun == 2);
        leaf.flush().expect("the first write is flushed");
        device.change(|progress| progress.writes_allowed = 2);
        late.join().expect("no panic").expect("it is written");
    });
    let before = device.progress.lock().flushes_ended;
    assert!(leaf.written.has_unflushed());
    leaf.flush().expect("the second write is flushed");
    assert_eq!(device.progress.lock().flushes_ended, before + 1);
    assert!(!leaf.written.has_unflushed());
    leaf.flush().expect("nothing to do");
    assert_eq!(device.progress.lock().flushes_ended, before + 1);
}

/// A caller whose write marks were taken by another thread's flush waits for that flush, and fails
/// with it.
#[test]
fn a_flush_waits_for_the_one_that_covers_its_writes() {
    for fails in [false, true] {
        let device = SlowDevice::new();
        device.change(|progress| {
            progress.writes_allowed = 1;
            progress.flushes_fail = fails;
        });
        let leaf = leaf_on(Arc::clone(&device) as Arc<dyn Device>);
        assert!(write(&leaf, 0, 5).is_ok());
        std::thread::scope(|scope| {
            let first = scope.spawn(|| leaf.flush());
            device.wait(|progress| progress.flushes_begun == 1);
            let second = scope.spawn(|| {
                let result = leaf.flush();
                (result, device.progress.lock().flushes_ended)
            });
            while !leaf.written.is_waited_for() {
                std::thread::yield_now();
            }
            device.change(|progress| progress.flushes_allowed = 1);
            let (result, ended) = second.join().expect("no panic");
            assert_eq!((result.is_err(), ended), (fails, 1));
            assert_eq!(first.join().expect("no panic").is_err(), fails);
        });
        assert_eq!(leaf.missed.missing().is_empty(), !fails);
        assert_eq!(leaf.written.losses(), u64::from(fails));
        assert_eq!(leaf.written.take_unreported(), fails);
        assert!(!leaf.written.take_unreported(), "it was reported");
    }
}

/// A write that is on its way while a flush fails may have been in the cache that was lost.
#[test]
fn a_failed_flush_costs_what_is_under_way_too() {
    let device = SlowDevice::new();
    device.change(|progress| {
        progress.writes_allowed = 1;
        progress.flushes_allowed = 1;
        progress.flushes_fail = true;
    });
    let leaf = leaf_on(Arc::clone(&device) as Arc<dyn Device>);
    assert!(write(&leaf, 0, 5).is_ok());
    std::thread::scope(|scope| {
        let late = scope.spawn(|| write(&leaf, 4096, 9));
        device.wait(|progress| progress.writes_begun == 2);
        assert!(leaf.flush().is_err());
        device.change(|progress| progress.writes_allowed = 2);
        late.join().expect("no panic").expect("it is written");
    });
    let missing = leaf.missed.missing();
    assert!(missing.contains(Txg(5)) && missing.contains(Txg(9)));
}

/// A write that arrives during a flush that fails may have been in the cache that was lost, and the
/// flush after that one succeeds without it. Regression: where only labels were to be flushed, the
/// lost blocks were not reported.
#[test]
fn a_failed_flush_costs_what_arrives_meanwhile() {
    let device = SlowDevice::new();
    device.change(|progress| {
        progress.writes_allowed = u32::MAX;
        progress.flushes_fail = true;
    });
    let leaf = leaf_on(Arc::clone(&device) as Arc<dyn Device>);
    let label = leaf.write_raw(0, &[1; 512], Txg(5));
    label.expect("the label is written");
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| leaf.flush());
        device.wait(|progress| progress.flushes_begun == 1);
        write(&leaf, 4096, 9).expect("the block is written");
        device.change(|progress| progress.flushes_allowed = 1);
        assert!(flush.join().expect("no panic").is_err());
    });
    let missing = leaf.missed.missing();
    assert!(missing.contains(Txg(5)) && missing.contains(Txg(9)));
    assert_eq!(
        leaf.written.losses(),
        1,
        "the writer of the block learns of it"
    );
}
