//! The state of an open device, and the way in: writes, discards, flushes.
//!
//! *Locks*, in the order in which they are taken: the uploader's work, the log, the state. The
//! log's lock is also what gives writes their order, so it exists where there is no log. No request
//! to the store and no flush is made under the latter two.
//!
//! *Failures* that cannot be mended by trying again (another writer, a log that does not flush) are
//! kept: everything that changes the device gets them from then on, so that the pool above suspends
//! with that reason.

use crate::cache::Cache;
use crate::chain::Checkpoints;
use crate::error::CloudError;
use crate::format::commit::{LogPoint, Tip};
use crate::format::device::Identity;
use crate::format::{Class, CommitNumber, Hash, SECTOR, WriterId};
use crate::kept::{Kept, Loss};
use crate::local::Place;
use crate::log::{AppendError, Event, Log, Logged, MemoryUse, PAYLOAD_MAX, Payload};
use crate::map::Map;
use crate::options::{CachePolicy, Drive, Options, WriteMode};
use crate::origin::Origin;
use crate::queue::{Limits, Queue, Sequence};
use crate::store::Client;
use cenote_base::metrics::Counter;
use cenote_base::rt::{Condvar, Job, Mutex, MutexGuard, ranks};
use cenote_device::Lead;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// From this share of the log on, in hundredths, writers are slowed down.
const SLOW_PERCENT: u64 = 60;
/// The longest that one write is slowed down.
const DELAY_MAX: Duration = Duration::from_secs(1);
/// The longest wait before a waiting thread checks the state again.
const NAP: Duration = Duration::from_millis(500);

/// What changes while the device is open.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) map: Map,
    pub(crate) tip: Tip,
    pub(crate) hash: Hash,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) queue: Queue,
    /// What is put again if the store loses it.
    pub(crate) kept: Kept,
    /// What the store was found to have lost since the last verification that found all of it.
    pub(crate) loss: Option<Loss>,
    /// Why nothing can be changed any more.
    pub(crate) failure: Option<Arc<CloudError>>,
    /// Whether the device is being closed, so that nothing may come any more.
    pub(crate) is_ending: bool,
    /// How often room may have been made.
    pub(crate) rounds: u64,
}

/// Where writes get their order.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) log: Option<Log>,
    /// What counts positions where there is no log.
    pub(crate) point: LogPoint,
    /// The point up to which the store has everything, and the commit that says so.
    pub(crate) trim: (LogPoint, CommitNumber),
}

/// What a device has done since it was opened.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) written: Counter,
    pub(crate) read: Counter,
    pub(crate) flushes: Counter,
    pub(crate) commits: Counter,
    pub(crate) checkpoints: Counter,
    pub(crate) compacted: Counter,
    pub(crate) deleted: Counter,
    pub(crate) waits: Counter,
}

/// What was seen when the device was opened.
#[derive(Debug)]
pub(crate) struct Seen {
    /// The object that says which device it is.
    pub(crate) identity: Arc<Vec<u8>>,
    /// How far each log that was seen had come.
    pub(crate) points: HashMap<[u8; 16], LogPoint>,
}

/// An open device.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) identity: Identity,
    pub(crate) seen: Seen,
    pub(crate) writer: WriterId,
    pub(crate) options: Options,
    pub(crate) client: Arc<Client>,
    pub(crate) place: Option<Arc<dyn Place>>,
    pub(crate) cache: Cache,
    /// What was fetched for a verification.
    pub(crate) fetched: Cache,
    pub(crate) memory: MemoryUse,
    pub(crate) counters: Counters,
    /// Bytes a second that went up lately.
    pub(crate) upload_rate: AtomicU64,
    /// Held by the thread that uploads.
    pub(crate) work: Mutex<crate::work::Work, ranks::CloudWork>,
    pub(crate) order: Mutex<Order, ranks::CloudOrder>,
    state: Mutex<State, ranks::CloudState>,
    /// A change that a thread may wait for.
    pub(crate) changed: Condvar,
    /// The uploader; it is woken when it has something to do.
    pub(crate) job: Job,
    pub(crate) is_stopping: AtomicBool,
    /// A caller has requested compaction of rarely needed objects.
    pub(crate) wants_compaction: AtomicBool,
    /// Something was found damaged that may be put again.
    pub(crate) wants_repair: AtomicBool,
    /// Held while a write that is not of whole sectors reads, changes and writes.
    unaligned: Mutex<(), ranks::CloudUnaligned>,
}

/// What a device is opened with.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) identity: Identity,
    pub(crate) seen: Seen,
    pub(crate) writer: WriterId,
    pub(crate) options: Options,
    pub(crate) client: Arc<Client>,
    pub(crate) place: Option<Arc<dyn Place>>,
    pub(crate) cache: Cache,
    pub(crate) memory: MemoryUse,
    pub(crate) order: Order,
    pub(crate) work: crate::work::Work,
    pub(crate) state: State,
}

impl Core {
    pub(crate) fn new(parts: Parts) -> Self {
        let fetched = Cache::new(parts.options.fetched_bytes, CachePolicy::Metadata);
        Self {
            identity: parts.identity,
            seen: parts.seen,
            writer: parts.writer,
            options: parts.options,
            client: parts.client,
            place: parts.place,
            fetched,
            cache: parts.cache,
            memory: parts.memory,
            counters: Counters::default(),
            upload_rate: AtomicU64::new(10 << 20),
            work: Mutex::new(parts.work),
            order: Mutex::new(parts.order),
            state: Mutex::new(parts.state),
            changed: Condvar::new(),
            job: Job::new(),
            is_stopping: AtomicBool::new(false),
            wants_compaction: AtomicBool::new(false),
            wants_repair: AtomicBool::new(false),
            unaligned: Mutex::new(()),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(crate) fn now(&self) -> Duration {
        self.client.env().monotonic()
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            bytes: self.options.batch_bytes,
            bytes_max: self.options.batch_bytes_max,
            age: self.options.batch_age,
        }
    }

    /// Whether flushes wait for the store.
    pub(crate) fn is_writethrough(&self) -> bool {
        self.place.is_none() || self.options.mode == WriteMode::Writethrough
    }

    /// Whether the next opening will not find the local log: its file was deleted, moved or
    /// exchanged. It promises nothing any more, so flushes wait for the store.
    pub(crate) fn has_lost_log(&self) -> bool {
        let log = self.order.lock().log.as_ref().map(|log| log.device());
        log.is_some_and(|device| device.lead() != Lead::Here)
    }

    /// Keeps a failure, for all later calls.
    pub(crate) fn fail(&self, error: CloudError) -> Arc<CloudError> {
        let mut state = self.state();
        let failure = state.failure.get_or_insert_with(|| Arc::new(error));
        let failure = Arc::clone(failure);
        drop(state);
        self.changed.notify_all();
        failure
    }

    pub(crate) fn check(&self) -> std::result::Result<(), Arc<CloudError>> {
        if self.options.is_read_only {
            return Err(Arc::new(CloudError::ReadOnly));
        }
        if self.is_stopping.load(Ordering::Relaxed) {
            return Err(Arc::new(CloudError::Closed));
        }
        match &self.state().failure {
            Some(failure) => Err(Arc::clone(failure)),
            None => Ok(()),
        }
    }

    /// As [`Self::check`], for writes.
    fn check_open(&self) -> std::result::Result<(), Arc<CloudError>> {
        self.check()?;
        match self.state().is_ending {
            true => Err(Arc::new(CloudError::Closed)),
            false => Ok(()),
        }
    }

    /// Writes bytes at any offset.
    pub(crate) fn write(
        &self,
        offset: u64,
        bytes: &[u8],
        class: Option<Class>,
    ) -> std::result::Result<(), Arc<CloudError>> {
        if bytes.is_empty() {
            return Ok(());
        }
        let class = class.unwrap_or(match bytes.len() as u64 {
            length if length >= self.options.contents_bytes_min => Class::Contents,
            _ => Class::Metadata,
        });
        self.counters.written.add(bytes.len() as u64);
        let end = offset + bytes.len() as u64;
        if offset.is_multiple_of(SECTOR) && end.is_multiple_of(SECTOR) {
            return self.write_sectors(offset / SECTOR, bytes, class);
        }
        let _guard = self.unaligned.lock();
        let first = offset / SECTOR * SECTOR;
        let last = end.next_multiple_of(SECTOR);
        let length = usize::try_from(last - first).expect("a buffer and its borders");
        let mut whole = vec![0; length];
        let edge = SECTOR as usize;
        self.read(first, &mut whole[..edge], Origin::Nearest)?;
        self.read(last - SECTOR, &mut whole[length - edge..], Origin::Nearest)?;
        let from = (offset - first) as usize;
        whole[from..from + bytes.len()].copy_from_slice(bytes);
        self.write_sectors(first / SECTOR, &whole, class)
    }

    fn write_sectors(
        &self,
        start: u64,
        bytes: &[u8],
        class: Class,
    ) -> std::result::Result<(), Arc<CloudError>> {
        self.slow_down(bytes.len() as u64);
        let mut at = start;
        for piece in bytes.chunks(PAYLOAD_MAX as usize) {
            let sectors = piece.len() as u64 / SECTOR;
            let event = Event::Write {
                start: at,
                sectors,
                class,
            };
            self.append(event, Some(piece))?;
            at += sectors;
        }
        self.drop_copies();
        Ok(())
    }

    /// Says that whole sectors within a range no longer matter.
    pub(crate) fn discard(
        &self,
        offset: u64,
        length: u64,
    ) -> std::result::Result<(), Arc<CloudError>> {
        let start = offset.div_ceil(SECTOR);
        let end = (offset + length) / SECTOR;
        if start >= end {
            return Ok(());
        }
        let sectors = end - start;
        self.append(Event::Discard { start, sectors }, None)?;
        Ok(())
    }

    /// Everything written before is durable once this returns.
    pub(crate) fn flush(&self) -> std::result::Result<(), Arc<CloudError>> {
        self.check()?;
        self.counters.flushes.add(1);
        let sequence = self.order_point()?;
        if self.is_writethrough() || self.has_lost_log() {
            return self.wait_for(sequence);
        }
        self.sync_log()
    }

    /// What comes later is not seen without what came before, after a crash either.
    pub(crate) fn order_point(&self) -> std::result::Result<Sequence, Arc<CloudError>> {
        self.check()?;
        let state = self.state();
        if state.queue.ends_with_flush() {
            return Ok(state.queue.last());
        }
        drop(state);
        self.append(Event::Flush, None)
    }

    /// Notes that everything written before completes the transaction group `txg`: the commit that
    /// takes it to the store says so.
    pub(crate) fn complete_group(&self, txg: u64) -> std::result::Result<(), Arc<CloudError>> {
        let is_complete = true;
        self.append(Event::Mark { txg, is_complete }, None)?;
        Ok(())
    }

    /// Makes what is in the log durable. A failure is one for good: what the kernel has dropped
    /// after it cannot be known.
    pub(crate) fn sync_log(&self) -> std::result::Result<(), Arc<CloudError>> {
        let device = match &self.order.lock().log {
            Some(log) => log.device(),
            None => return Ok(()),
        };
        device.flush().map_err(|error| self.fail(error.into()))
    }

    /// Adds an event, as soon as there is room.
    fn append(
        &self,
        event: Event,
        bytes: Option<&[u8]>,
    ) -> std::result::Result<Sequence, Arc<CloudError>> {
        loop {
            self.check()?;
            let rounds = self.state().rounds;
            if let Some(sequence) = self.try_append(event, bytes)? {
                return Ok(sequence);
            }
            if self.trim_log().map_err(|error| self.fail(error))? {
                continue;
            }
            self.counters.waits.add(1);
            self.wait(
                |state| state.queue.want_room(),
                |state| state.rounds > rounds,
            )?;
        }
    }

    /// Adds an event; `None` if there is no room.
    fn try_append(
        &self,
        event: Event,
        bytes: Option<&[u8]>,
    ) -> std::result::Result<Option<Sequence>, Arc<CloudError>> {
        let length = bytes.map_or(0, <[u8]>::len) as u64;
        let mut order = self.order.lock();
        self.check_open()?;
        let logged = match &mut order.log {
            Some(log) => match log.append(event, bytes) {
                Ok(logged) => logged,
                Err(AppendError::Full) => return Ok(None),
                Err(AppendError::Device(error)) => {
                    drop(order);
                    return Err(self.fail(error.into()));
                }
            },
            None => {
                let queued = self.state().queue.bytes();
                if queued > 0 && queued + length > self.options.memory_bytes {
                    return Ok(None);
                }
                order.point.position += length + 1;
                let payload = bytes.map(|b| Payload::in_memory(b.to_vec(), &self.memory));
                Logged {
                    event,
                    payload: payload.map(Arc::new),
                    end: order.point,
                }
            }
        };
        let now = self.now();
        let mut state = self.state();
        let was_below = state.queue.bytes() < self.options.batch_bytes;
        let was_idle = state.queue.oldest().is_none();
        let sequence = state.queue.push(logged, now);
        let is_above = state.queue.bytes() >= self.options.batch_bytes;
        if was_idle || (was_below && is_above) || (is_above && event == Event::Flush) {
            self.job.wake();
        }
        Ok(Some(sequence))
    }

    /// Makes a write wait a little where the log fills faster than it is uploaded.
    fn slow_down(&self, bytes: u64) {
        let (used, capacity) = match &self.order.lock().log {
            Some(log) => (log.used(), log.capacity()),
            None => return,
        };
        let slow = capacity / 100 * SLOW_PERCENT;
        if used <= slow {
            return;
        }
        // From nothing at the border to twice the time that the bytes take to be uploaded.
        let pressure = (used - slow) as f64 / (capacity - slow) as f64;
        let rate = self.upload_rate.load(Ordering::Relaxed).max(1);
        let seconds = 2.0 * pressure * bytes as f64 / rate as f64;
        let delay = Duration::from_secs_f64(seconds.min(DELAY_MAX.as_secs_f64()));
        if self.options.drive == Drive::Thread {
            self.client.env().sleep(delay);
        }
    }

    fn drop_copies(&self) {
        let limit = self.options.memory_bytes;
        let memory = Arc::clone(&self.memory);
        let is_enough = move || memory.load(Ordering::Relaxed) <= limit;
        if !is_enough() {
            self.state().queue.drop_copies(is_enough);
        }
    }

    /// Has everything up to `sequence` uploaded now.
    pub(crate) fn want(&self, sequence: Sequence) {
        let mut state = self.state();
        state.queue.want(sequence);
        self.job.wake();
    }

    /// Waits until everything up to `sequence` is in the store.
    pub(crate) fn wait_for(&self, sequence: Sequence) -> std::result::Result<(), Arc<CloudError>> {
        self.wait(
            |state| state.queue.want(sequence),
            |state| state.queue.is_committed(sequence),
        )
    }

    fn wait(
        &self,
        ask: impl Fn(&mut State),
        is_done: impl Fn(&State) -> bool,
    ) -> std::result::Result<(), Arc<CloudError>> {
        loop {
            self.check()?;
            let mut state = self.state();
            if is_done(&state) {
                return Ok(());
            }
            ask(&mut state);
            self.job.wake();
            match self.options.drive {
                Drive::Thread => {
                    let waited = self.changed.wait_timeout(state, NAP);
                    drop(waited);
                }
                Drive::Manual => {
                    drop(state);
                    self.step()?;
                }
            }
        }
    }
}
