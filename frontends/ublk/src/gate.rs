//! The gate between a disk of this machine and the device behind it, such as a volume. That can be
//! taken away while the disk stays.
//!
//! When the daemon leaves a disk to the next one, the kernel still sends requests for a moment.
//! They must not be answered: an error would reach the file system. So they wait here until the
//! process ends, and the kernel sends them again to the next daemon.

use crate::unflushed::{Change, Unflushed};
use cenote_base::rt::{Condvar, Mutex, ranks};
use cenote_nbd::protocol::ErrorCode;
use cenote_nbd::{BlockDevice, BlockError, BlockSizes, Extent, ReadData, ZeroMode};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// How long to wait for requests under way when the volume is taken away.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// Requests wait until the process ends.
    Left,
    /// Requests fail.
    Ended,
}

struct State<D> {
    phase: Phase,
    disk: Option<Arc<D>>,
    under_way: usize,
}

/// What a gate needs to know of the device behind it.
pub trait Lasting: BlockDevice {
    /// Whether what was flushed outlives a crash of the daemon.
    fn flushes_last(&self) -> bool;

    /// Returns once everything written before outlives a crash, whatever the settings say.
    ///
    /// # Errors
    /// It cannot be stored.
    fn make_last(&self) -> Result<(), BlockError>;
}

/// The block device behind the kernel's disk.
pub struct Gate<D> {
    state: Mutex<State<D>, ranks::DiskGate>,
    changed: Condvar,
    unflushed: Unflushed,
    is_read_only: bool,
    block_sizes: BlockSizes,
}

impl<D: Lasting> Gate<D> {
    /// The gate before a device, with the journal of its unflushed writes.
    pub fn new(disk: D, unflushed: Unflushed) -> Self {
        Self {
            is_read_only: disk.is_read_only(),
            block_sizes: disk.block_sizes(),
            state: Mutex::new(State {
                phase: Phase::Open,
                disk: Some(Arc::new(disk)),
                under_way: 0,
            }),
            changed: Condvar::default(),
            unflushed,
        }
    }

    fn enter(&self) -> Result<Arc<D>, BlockError> {
        let state = self.state.lock();
        let is_left = |state: &mut State<D>| state.phase == Phase::Left;
        let mut state = self.changed.wait_while(state, is_left);
        match &state.disk {
            Some(disk) => {
                let disk = Arc::clone(disk);
                state.under_way += 1;
                Ok(disk)
            }
            None => Err(BlockError::new(ErrorCode::Io, "the disk was taken away")),
        }
    }

    /// Carries out a request.
    fn with<T>(&self, request: impl FnOnce(&D) -> Result<T, BlockError>) -> Result<T, BlockError> {
        let disk = self.enter()?;
        let answer = request(&disk);
        drop(disk);
        let mut state = self.state.lock();
        state.under_way -= 1;
        self.changed.notify_all();
        if answer.is_err() {
            // It may have failed because the volume was taken away.
            let is_left = |state: &mut State<D>| state.phase == Phase::Left;
            drop(self.changed.wait_while(state, is_left));
        }
        answer
    }

    /// Adds a change to the journal. If that fails, makes everything durable instead.
    fn note(&self, disk: &D, change: Change<'_>) -> Result<(), BlockError> {
        match self.unflushed.note(change) {
            Ok(()) => Ok(()),
            Err(_) => self.make_last(disk),
        }
    }

    fn make_last(&self, disk: &D) -> Result<(), BlockError> {
        let sealed = self.unflushed.seal();
        disk.make_last()?;
        self.unflushed.discard(sealed);
        Ok(())
    }

    fn flush_disk(&self, disk: &D) -> Result<(), BlockError> {
        let sealed = self.unflushed.seal();
        disk.flush()?;
        if disk.flushes_last() {
            self.unflushed.discard(sealed);
        }
        Ok(())
    }

    /// Writes to the volume the changes that an earlier daemon answered but did not flush.
    ///
    /// # Errors
    /// It cannot be written: the disk must not be used.
    pub fn replay(&self) -> Result<u64, BlockError> {
        self.with(|disk| {
            let size = disk.size();
            let within = |offset: u64, length: u64| {
                offset.checked_add(length).is_some_and(|end| end <= size)
            };
            let count = self.unflushed.replay(|change| match change {
                // The volume may have shrunk: changes beyond its end no longer matter.
                Change::Write { offset, bytes } if within(offset, bytes.len() as u64) => {
                    disk.write(offset, bytes, false)
                }
                Change::Trim { offset, length } if within(offset, length) => {
                    disk.trim(offset..offset + length)
                }
                Change::Zero { offset, length } if within(offset, length) => {
                    disk.zero(offset..offset + length, ZeroMode::default())
                }
                _ => Ok(()),
            })?;
            if count > 0 {
                self.make_last(disk)?;
            }
            Ok(count)
        })
    }

    /// Takes the volume away: requests wait until the process ends.
    ///
    /// # Errors
    /// What was written cannot be stored now; it is kept for the next daemon.
    pub fn leave(&self) -> Result<(), BlockError> {
        let Some(disk) = self.take(Phase::Left) else {
            return Ok(());
        };
        if !self.is_read_only {
            self.make_last(&disk)?;
        }
        Ok(())
    }

    /// Takes the volume away: requests fail.
    pub fn end(&self) {
        drop(self.take(Phase::Ended));
        self.unflushed.end();
    }

    fn take(&self, phase: Phase) -> Option<Arc<D>> {
        let mut state = self.state.lock();
        state.phase = phase;
        let disk = state.disk.take();
        self.changed.notify_all();
        let is_busy = |state: &mut State<D>| state.under_way > 0;
        drop(self.changed.wait_timeout_while(state, PATIENCE, is_busy));
        disk
    }
}

impl<D: Lasting> BlockDevice for Gate<D> {
    fn size(&self) -> u64 {
        let disk = self.state.lock().disk.clone();
        disk.map_or(0, |disk| disk.size())
    }

    fn block_sizes(&self) -> BlockSizes {
        self.block_sizes
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn knows_fast_zero(&self) -> bool {
        true
    }

    fn read(&self, offset: u64, length: usize, data: &mut ReadData) -> Result<(), BlockError> {
        self.with(|disk| disk.read(offset, length, data))
    }

    fn write(&self, offset: u64, bytes: &[u8], is_durable: bool) -> Result<(), BlockError> {
        self.with(|disk| {
            disk.write(offset, bytes, false)?;
            self.note(disk, Change::Write { offset, bytes })?;
            match is_durable {
                true => self.flush_disk(disk),
                false => Ok(()),
            }
        })
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.with(|disk| self.flush_disk(disk))
    }

    fn trim(&self, range: Range<u64>) -> Result<(), BlockError> {
        let (offset, length) = (range.start, range.end - range.start);
        self.with(|disk| {
            disk.trim(range)?;
            self.note(disk, Change::Trim { offset, length })
        })
    }

    fn zero(&self, range: Range<u64>, mode: ZeroMode) -> Result<(), BlockError> {
        let (offset, length) = (range.start, range.end - range.start);
        self.with(|disk| {
            disk.zero(range, mode)?;
            self.note(disk, Change::Zero { offset, length })
        })
    }

    fn extents(
        &self,
        context: &str,
        range: Range<u64>,
        most: usize,
    ) -> Result<Vec<Extent>, BlockError> {
        self.with(|disk| disk.extents(context, range, most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::Kept;
    use cenote_base::rt;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    /// A volume: what is not flushed ends with it.
    struct Fake {
        now: Mutex<Vec<u8>, rt::Unranked>,
        disk: Arc<Mutex<Vec<u8>, rt::Unranked>>,
        is_sync_disabled: Arc<AtomicBool>,
        syncs: Arc<AtomicU64>,
    }

    #[derive(Default)]
    struct World {
        disk: Arc<Mutex<Vec<u8>, rt::Unranked>>,
        is_sync_disabled: Arc<AtomicBool>,
        syncs: Arc<AtomicU64>,
        kept: Arc<AtomicU64>,
    }

    impl World {
        fn new() -> Self {
            let world = Self::default();
            *world.disk.lock() = vec![0; 4096];
            world
        }

        fn gate(&self, directory: &Path, is_fresh: bool) -> Gate<Fake> {
            let fake = Fake {
                now: Mutex::new(self.disk.lock().clone()),
                disk: Arc::clone(&self.disk),
                is_sync_disabled: Arc::clone(&self.is_sync_disabled),
                syncs: Arc::clone(&self.syncs),
            };
            let place = Kept::open(directory).expect("ours");
            let unflushed = Unflushed::begin(place, is_fresh, Arc::clone(&self.kept));
            Gate::new(fake, unflushed.expect("begun"))
        }
    }

    impl Lasting for Fake {
        fn flushes_last(&self) -> bool {
            !self.is_sync_disabled.load(Ordering::SeqCst)
        }

        fn make_last(&self) -> Result<(), BlockError> {
            self.syncs.fetch_add(1, Ordering::SeqCst);
            *self.disk.lock() = self.now.lock().clone();
            Ok(())
        }
    }

    impl BlockDevice for Fake {
        fn size(&self) -> u64 {
            self.now.lock().len() as u64
        }

        fn read(&self, _: u64, _: usize, _: &mut ReadData) -> Result<(), BlockError> {
            Ok(())
        }

        fn write(&self, offset: u64, bytes: &[u8], _durable: bool) -> Result<(), BlockError> {
            let start = usize::try_from(offset).expect("small");
            self.now.lock()[start..start + bytes.len()].copy_from_slice(bytes);
            Ok(())
        }

        fn flush(&self) -> Result<(), BlockError> {
            if self.flushes_last() {
                *self.disk.lock() = self.now.lock().clone();
            }
            Ok(())
        }

        fn trim(&self, range: Range<u64>) -> Result<(), BlockError> {
            self.zero(range, ZeroMode::default())
        }

        fn zero(&self, range: Range<u64>, _: ZeroMode) -> Result<(), BlockError> {
            let length = usize::try_from(range.end - range.start).expect("small");
            self.write(range.start, &vec![0; length], false)
        }

        fn extents(&self, _: &str, _: Range<u64>, _: usize) -> Result<Vec<Extent>, BlockError> {
            Ok(Vec::new())
        }
    }

    /// A file system stays mounted when the daemon of its disk dies, so answered writes must be
    /// there.
    #[test]
    fn a_disk_that_is_taken_over_has_all_that_was_answered() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path().join("one");
        for is_sync_disabled in [false, true] {
            let world = World::new();
            world
                .is_sync_disabled
                .store(is_sync_disabled, Ordering::SeqCst);
            let gate = world.gate(&place, true);
            gate.write(0, &[1; 512], false).expect("written");
            gate.flush().expect("flushed");
            gate.write(512, &[2; 512], false).expect("written");
            gate.write(1024, &[3; 512], true).expect("written");
            gate.write(0, &[4; 512], false).expect("written");
            gate.zero(512..1024, ZeroMode::default()).expect("zeroed");
            let expected = |at: usize| [4, 0, 3][at / 512];
            // The daemon dies.
            drop(gate);
            let gate = world.gate(&place, false);
            let replayed = gate.replay().expect("replayed");
            assert_eq!(replayed, if is_sync_disabled { 5 } else { 2 });
            let disk = world.disk.lock().clone();
            assert!((0..1536).all(|at| disk[at] == expected(at)));
            drop(gate);
            assert_eq!(world.gate(&place, false).replay().expect("none"), 0);
        }
    }

    #[test]
    fn what_cannot_be_kept_is_made_durable_before_the_answer() {
        let directory = tempfile::tempdir().expect("a directory");
        let world = World::new();
        let gate = world.gate(directory.path(), true);
        std::fs::remove_dir_all(directory.path()).expect("removed");
        gate.write(0, &[1; 512], false).expect("written");
        assert_eq!(world.syncs.load(Ordering::SeqCst), 1);
        assert_eq!(world.disk.lock()[0], 1);
    }

    /// An error for a request that arrives while the daemon leaves would reach the file system.
    #[test]
    fn requests_wait_when_the_disk_is_left_and_fail_when_it_is_gone() {
        let directory = tempfile::tempdir().expect("a directory");
        let world = World::new();
        let gate = Arc::new(world.gate(directory.path(), true));
        gate.write(0, &[1; 512], false).expect("written");
        gate.leave().expect("left");
        assert_eq!(world.disk.lock()[0], 1, "it is durable");
        let (sender, receiver) = rt::channel();
        let own = Arc::clone(&gate);
        let waiting = move || {
            let _ = own.write(0, &[2; 512], false);
            let _ = sender.send(());
        };
        rt::spawn("waiting", waiting).expect("a thread");
        let answered = receiver.recv_timeout(Duration::from_millis(200));
        assert!(answered.is_err(), "it waits");
        gate.end();
        receiver.recv().expect("it fails then");
        assert!(gate.write(0, &[3; 512], false).is_err());
        assert_eq!(world.disk.lock()[0], 1);
    }
}
