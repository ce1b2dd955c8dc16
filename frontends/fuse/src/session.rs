//! A connection to the kernel and the workers that serve it.
//!
//! Each worker loops on its own descriptor: receive, dispatch, answer. Work is synchronous, so the
//! number of workers bounds the number of requests under way. A few of them always wait; when the
//! last waiting one gets a request it starts another, up to the maximum, because all the others
//! may be blocked on slow disks. Or they may only wait for a processor, which looks the same: so
//! one at a time is started, and after many requests in a row that found more than enough
//! workers waiting, one leaves. The kernel wakes waiting workers in turns; with few of them what
//! each needs is still in the processor's caches.
//!
//! The kernel cancels a request by a second one, INTERRUPT, which names the first one's number.
//! Every worker publishes the number it works on in a slot; raising the interrupt means storing
//! the number beside it, so that a late interrupt can never hit the slot's next request.

use crate::dispatch::Worker;
use crate::filesystem::{Errno, FileSystem};
use crate::follow::{Binding, Callers};
use crate::lookout::Lookout;
use crate::metrics::SessionMetrics;
use crate::overdue::{Overdue, POLL};
use crate::protocol::init::{self, Negotiated, Offer, Wishes};
use crate::protocol::request::RequestHeader;
use crate::protocol::wire::Malformed;
use crate::protocol::{opcode, reply};
use crate::receive::{RECEIVE_SIZE_MIN, Receiver};
use crate::transport::{Device, Received};
use crate::turns::{Turn, Turns};
use cenote_base::rt::{self, Condvar, Instant, Mutex, ranks};
use std::io::{IoSlice, IoSliceMut};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// After so many requests in a row with waiting workers to spare, one worker leaves.
const SURPLUS_MAX: usize = 2000;

/// How often a session that was cut is looked at, and how often any other.
const CUT_POLL: Duration = Duration::from_millis(5);
const WAIT_POLL: Duration = Duration::from_secs(3600);

/// Whether the caller of a request was signalled and no longer wants the answer.
#[derive(Debug, Default)]
pub struct Interrupt {
    current: AtomicU64,
    raised: AtomicU64,
    /// The request that anybody may answer; who takes it from here does.
    open: AtomicU64,
    /// Where the worker's requests come from, and answers go to.
    device: Mutex<Option<Arc<Device>>, ranks::FuseInterrupt>,
}

impl Interrupt {
    /// Whether to give up and answer `EINTR`. Cheap enough for every step of a long wait.
    pub fn is_raised(&self) -> bool {
        let current = self.current.load(Ordering::Acquire);
        current != 0 && self.raised.load(Ordering::Acquire) == current
    }

    fn begin(&self, unique: u64, is_open: bool) {
        let open = if is_open { unique } else { 0 };
        self.open.store(open, Ordering::Release);
        // Before the look at whether the session was cut: whoever cuts it looks the other way.
        self.current.store(unique, Ordering::SeqCst);
    }

    /// Takes the right to answer a request that began as open; false if somebody else has it.
    pub(crate) fn claim(&self, unique: u64) -> bool {
        let claimed = self
            .open
            .compare_exchange(unique, 0, Ordering::AcqRel, Ordering::Acquire);
        claimed.is_ok()
    }

    fn is_open(&self, unique: u64) -> bool {
        self.open.load(Ordering::Acquire) == unique
    }

    fn end(&self) {
        self.current.store(0, Ordering::Release);
    }

    /// Raises the interrupt if `unique` is being worked on.
    fn raise(&self, unique: u64) -> bool {
        let hit = self.current.load(Ordering::Acquire) == unique;
        if hit {
            self.raised.store(unique, Ordering::Release);
        }
        hit
    }
}

/// How a session works.
#[derive(Debug, Clone)]
pub(crate) struct SessionConfig {
    pub device_path: PathBuf,
    pub threads_min: usize,
    pub threads_max: usize,
    pub wishes: Wishes,
}

/// Why a session could not begin.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The channel failed.
    #[error("cannot talk to the kernel's FUSE driver: {0}")]
    Channel(#[source] Errno),
    /// The mount went away before it was ready.
    #[error("the kernel ended the mount during its first request")]
    Ended,
    /// The kernel's first request made no sense.
    #[error("the kernel's first request cannot be read: {0}")]
    Malformed(#[from] Malformed),
    /// The first request was not INIT.
    #[error("the kernel's first request has operation code {0}, not INIT")]
    Unexpected(u32),
    /// A kernel before 5.4.
    #[error("the kernel speaks FUSE {major}.{minor}; at least 7.31 is needed")]
    TooOld {
        /// Offered major version.
        major: u32,
        /// Offered minor version.
        minor: u32,
    },
}

/// One mount's connection.
pub(crate) struct Session {
    pub file_system: Arc<dyn FileSystem>,
    pub negotiated: Negotiated,
    pub metrics: SessionMetrics,
    pub device: Device,
    config: SessionConfig,
    slots: Box<[Interrupt]>,
    free_slots: Mutex<Vec<usize>, ranks::FuseSlots>,
    waiting: AtomicUsize,
    callers: Callers,
    turns: Turns,
    /// A worker was started and does not wait yet.
    starting: AtomicBool,
    /// Requests since there were no workers to spare, or one left.
    surplus: AtomicUsize,
    /// Workers that wait for the kernel to send off stores.
    collecting: AtomicUsize,
    running: Mutex<usize, ranks::FuseWorkers>,
    all_ended: Condvar,
    overdue: Mutex<Overdue, ranks::FuseOverdue>,
    /// No request gets through to the file system any more.
    is_cut: AtomicBool,
    /// The file system knows that it has ended.
    is_told: AtomicBool,
}

/// A worker that waits for others.
pub(crate) struct Collecting<'a>(&'a AtomicUsize);

impl Drop for Collecting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Session {
    /// Answers the kernel's INIT on `device` and prepares the workers' shared state.
    pub fn negotiate(
        file_system: Arc<dyn FileSystem>,
        device: Device,
        config: SessionConfig,
    ) -> Result<Arc<Session>, HandshakeError> {
        assert!(config.threads_min >= 1 && config.threads_min <= config.threads_max);
        let negotiated = handshake(&device, &config.wishes)?;
        let slots = (0..config.threads_max)
            .map(|_| Interrupt::default())
            .collect();
        let free_slots = Mutex::new((0..config.threads_max).rev().collect());
        let callers = Callers::default();
        let turns = Turns::new(callers.processors());
        Ok(Arc::new(Session {
            file_system,
            negotiated,
            metrics: SessionMetrics::default(),
            device,
            config,
            slots,
            free_slots,
            waiting: AtomicUsize::new(0),
            callers,
            turns,
            starting: AtomicBool::new(false),
            surplus: AtomicUsize::new(0),
            collecting: AtomicUsize::new(0),
            running: Mutex::new(0),
            all_ended: Condvar::new(),
            overdue: Mutex::default(),
            is_cut: AtomicBool::new(false),
            is_told: AtomicBool::new(false),
        }))
    }

    /// Starts the workers that always run.
    pub fn start(self: &Arc<Self>) -> std::io::Result<()> {
        for _ in 0..self.config.threads_min {
            self.spawn_worker()?;
        }
        Ok(())
    }

    /// Number of workers now.
    pub fn workers(&self) -> usize {
        *self.running.lock()
    }

    /// Waits until the kernel has ended the connection or, if it was cut, until no request is under
    /// way; or until `limit` has passed. Returns whether it has ended.
    pub fn wait_ended(&self, limit: Option<Duration>) -> bool {
        let until = limit.map(|limit| Instant::now() + limit);
        let mut running = self.running.lock();
        loop {
            if *running == 0 || self.is_cut() && self.is_idle() {
                drop(running);
                self.tell_end();
                return true;
            }
            // Nobody tells when a cut session is idle.
            let pause = if self.is_cut() { CUT_POLL } else { WAIT_POLL };
            let left = until.map_or(pause, |until| {
                until.saturating_duration_since(Instant::now()).min(pause)
            });
            if left.is_zero() {
                return false;
            }
            let waited = self.all_ended.wait_timeout(running, left);
            (running, _) = waited;
        }
    }

    /// Lets no request through to the file system any more; each gets ENOTCONN.
    pub fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
        self.turns.end();
    }

    /// Whether it was cut.
    pub fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::SeqCst)
    }

    /// Whether no request is with the file system.
    fn is_idle(&self) -> bool {
        let mut slots = self.slots.iter();
        slots.all(|slot| slot.current.load(Ordering::SeqCst) == 0)
    }

    /// Lets the file system know, once, that it has ended.
    fn tell_end(&self) {
        if !self.is_told.swap(true, Ordering::AcqRel) {
            self.file_system.destroy();
        }
    }

    /// Marks the request with this number as unwanted. False if nobody works on it.
    pub fn interrupt(self: &Arc<Self>, unique: u64) -> bool {
        let raise = |slot: &Interrupt| slot.raise(unique);
        let Some(slot) = self.slots.iter().position(raise).filter(|_| unique != 0) else {
            return false;
        };
        if self.slots[slot].is_open(unique) {
            self.watch(slot, unique);
        }
        true
    }

    /// Has a request answered that goes on although it was interrupted.
    fn watch(self: &Arc<Self>, slot: usize, unique: u64) {
        let mut overdue = self.overdue.lock();
        overdue.push(slot, unique);
        if std::mem::replace(&mut overdue.is_watched, true) {
            return;
        }
        drop(overdue);
        let session = Arc::clone(self);
        let body = move || session.answer_overdue();
        let started = rt::spawn("fuse-overdue", body);
        if started.is_err() {
            // Then it waits as long as its request does.
            self.overdue.lock().is_watched = false;
        }
    }

    fn answer_overdue(&self) {
        loop {
            rt::sleep(POLL);
            let mut overdue = self.overdue.lock();
            let due = overdue.take_due(|slot, unique| self.slots[slot].is_open(unique));
            let is_last = overdue.is_empty();
            overdue.is_watched = !is_last;
            drop(overdue);
            for (slot, unique) in due {
                let slot = &self.slots[slot];
                let device = slot.device.lock().clone();
                if let Some(device) = device.filter(|_| slot.claim(unique)) {
                    self.metrics.errors.add(1);
                    let header = reply::header(unique, -Errno::INTR.raw_os_error(), 0);
                    // The connection may have ended; then nobody waits.
                    let _ = device.send(&[IoSlice::new(&header)]);
                }
            }
            if is_last {
                return;
            }
        }
    }

    /// Lets a worker wait for requests that other workers have to serve, while few enough do.
    pub fn begin_collecting(&self) -> Option<Collecting<'_>> {
        let limit = self.config.threads_max / 2;
        let more = |count| (count < limit).then_some(count + 1);
        let counted = self
            .collecting
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        counted.ok().map(|_| Collecting(&self.collecting))
    }

    /// Starts one more worker, if there may be more.
    fn add_worker(self: &Arc<Self>) {
        match self.spawn_worker() {
            Ok(true) => return,
            Ok(false) => {}
            // The others serve on; the next such moment tries again.
            Err(_) => self.metrics.channel_errors.add(1),
        }
        self.starting.store(false, Ordering::Release);
    }

    /// Whether another worker was started; there are never more than there may be.
    fn spawn_worker(self: &Arc<Self>) -> std::io::Result<bool> {
        let Some(slot) = self.free_slots.lock().pop() else {
            return Ok(false);
        };
        let outcome = self.try_spawn(slot);
        if outcome.is_err() {
            self.free_slots.lock().push(slot);
        }
        outcome.map(|()| true)
    }

    fn try_spawn(self: &Arc<Self>, slot: usize) -> std::io::Result<()> {
        let device = Arc::new(self.device.another(&self.config.device_path)?);
        *self.slots[slot].device.lock() = Some(Arc::clone(&device));
        *self.running.lock() += 1;
        let session = Arc::clone(self);
        let body = move || {
            let leaving = Leaving { session, slot };
            leaving.session.work(&device, slot);
        };
        let started = rt::spawn(format!("fuse-{slot}"), body);
        match started {
            // The closure was dropped unrun, and with it no `Leaving` that would count down.
            Err(error) => {
                *self.running.lock() -= 1;
                Err(error)
            }
            // Detached: `Leaving` tells when it has ended.
            Ok(_) => Ok(()),
        }
    }

    fn work(self: &Arc<Self>, device: &Device, slot: usize) {
        let mut receiver = Receiver::new(self.config.wishes.write_size_max as usize);
        let mut worker = Worker::new(self, device, &self.slots[slot]);
        self.starting.store(false, Ordering::Release);
        let mut binding = Binding::default();
        let mut lookout = Lookout::new();
        loop {
            if self.turns.would_park(slot) {
                // A guard that stays awake does so on another processor than the caller's.
                binding.follow(&self.callers, true);
            }
            let is_spare = || self.workers() > self.config.threads_min;
            let turn = self.turns.take(slot, &mut lookout, &self.callers, is_spare);
            if turn == Turn::Leave {
                return;
            }
            let is_alone = turn == Turn::Alone && self.waiting.load(Ordering::Acquire) == 0;
            let looks = is_alone && self.turns.keeps_leader_awake() && lookout.pays();
            binding.follow(&self.callers, looks);
            let is_timed = is_alone && !looks && self.turns.keeps_leader_awake();
            let start = is_timed.then(Instant::now);
            self.waiting.fetch_add(1, Ordering::AcqRel);
            let received = receiver.receive(device, looks.then_some(&mut lookout));
            let waiting_before = self.waiting.fetch_sub(1, Ordering::AcqRel);
            let length = match received {
                Ok(Received::Request(length)) => length,
                Ok(Received::Ended) => return self.turns.end(),
                Err(_) => {
                    self.metrics.channel_errors.add(1);
                    return;
                }
            };
            if let Some(start) = start {
                lookout.slept(start.elapsed());
            }
            let request = receiver.request(length);
            let is_last = waiting_before == 1 && !is_forget(request.front());
            let is_guarded = turn == Turn::Alone && self.turns.is_guarded();
            if is_last && !is_guarded && !self.starting.swap(true, Ordering::AcqRel) {
                self.add_worker();
            }
            let at_work = (turn == Turn::Alone).then(|| self.turns.at_work());
            let under_way = self.callers.enter(request.front(), length);
            match (&under_way, self.callers.is_single()) {
                (None, _) => {}
                (Some(_), true) => self.turns.gather(),
                (Some(_), false) => self.turns.scatter(),
            }
            let block_size = worker.serve(request, under_way);
            drop(at_work);
            receiver.served(length, block_size);
            if self.is_cut() {
                return self.turns.end();
            }
            if self.is_surplus() {
                return;
            }
        }
    }

    /// Notes how many workers wait after a request; whether its worker is to leave.
    fn is_surplus(&self) -> bool {
        if self.waiting.load(Ordering::Acquire) <= self.config.threads_min {
            self.surplus.store(0, Ordering::Relaxed);
            return false;
        }
        // Exactly one worker sees the number that is too high.
        let before = self.surplus.fetch_add(1, Ordering::Relaxed);
        if before == SURPLUS_MAX {
            self.surplus.store(0, Ordering::Relaxed);
        }
        before == SURPLUS_MAX
    }

    /// Publishes that `slot` works on `unique` until the guard is dropped; if `is_open`, others may
    /// answer it.
    pub fn working_on(slot: &Interrupt, unique: u64, is_open: bool) -> WorkingOn<'_> {
        slot.begin(unique, is_open);
        WorkingOn { slot }
    }
}

/// While it lives, its slot's request can be interrupted.
pub(crate) struct WorkingOn<'a> {
    slot: &'a Interrupt,
}

impl Drop for WorkingOn<'_> {
    fn drop(&mut self) {
        self.slot.end();
    }
}

/// Counts a worker down when its thread ends, for whatever reason.
struct Leaving {
    session: Arc<Session>,
    slot: usize,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.session.turns.leave(self.slot);
        *self.session.slots[self.slot].device.lock() = None;
        self.session.free_slots.lock().push(self.slot);
        let mut running = self.session.running.lock();
        assert!(*running > 0, "a worker left that had not been counted");
        *running -= 1;
        if *running == 0 {
            self.session.tell_end();
            self.session.all_ended.notify_all();
        }
    }
}

/// Whether it is done with at once: it keeps no worker from the next request.
fn is_forget(request: &[u8]) -> bool {
    let code = RequestHeader::opcode_of(request);
    matches!(code, Some(opcode::FORGET | opcode::BATCH_FORGET))
}

/// Receives INIT and answers it.
fn handshake(device: &Device, wishes: &Wishes) -> Result<Negotiated, HandshakeError> {
    let mut buffer = vec![0; RECEIVE_SIZE_MIN];
    loop {
        let received = device
            .receive(&mut [IoSliceMut::new(&mut buffer)], None)
            .map_err(HandshakeError::Channel)?;
        let Received::Request(length) = received else {
            return Err(HandshakeError::Ended);
        };
        let (header, arguments) = RequestHeader::decode(&buffer[..length])?;
        if header.opcode != opcode::INIT {
            return Err(HandshakeError::Unexpected(header.opcode));
        }
        let offer = Offer::decode(arguments)?;
        let send = |answer: &[u8]| {
            let head = reply::header(header.unique, 0, answer.len());
            device
                .send(&[IoSlice::new(&head), IoSlice::new(answer)])
                .map_err(HandshakeError::Channel)
        };
        if offer.major > init::major() {
            send(&init::version_only())?;
            continue;
        }
        if offer.major < init::major() || offer.minor < init::MINOR_MIN {
            return Err(HandshakeError::TooOld {
                major: offer.major,
                minor: offer.minor,
            });
        }
        let (negotiated, answer) = init::negotiate(&offer, wishes);
        send(&answer)?;
        return Ok(negotiated);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_hit_only_the_named_request() {
        let slot = Interrupt::default();
        assert!(!slot.is_raised());
        {
            let _working = Session::working_on(&slot, 8, true);
            assert!(!slot.raise(6));
            assert!(!slot.is_raised());
            assert!(slot.raise(8));
            assert!(slot.is_raised());
            assert!(slot.is_open(8) && slot.claim(8));
            assert!(!slot.claim(8), "one answers");
        }
        assert!(!slot.is_raised());
        let _working = Session::working_on(&slot, 10, false);
        assert!(
            !slot.is_raised(),
            "an old interrupt must not hit the next request"
        );
    }
}
