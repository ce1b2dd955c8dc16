//! A connection to the kernel: its state, which the workers share.
//!
//! The kernel cancels a request by a second one, INTERRUPT, which names the first one's number.
//! Every worker publishes the number it works on in a slot; raising the interrupt means storing
//! the number beside it, so that a late interrupt can never hit the slot's next request.

use crate::filesystem::FileSystem;
use crate::follow::Callers;
use crate::interrupt::{Interrupt, WorkingOn};
use crate::metrics::SessionMetrics;
use crate::notify::{Channel, Collecting};
use crate::overdue::{Overdue, POLL};
use crate::protocol::init::{self, Negotiated, Offer, Wishes};
use crate::protocol::request::RequestHeader;
use crate::protocol::wire::Malformed;
use crate::protocol::{opcode, reply};
use crate::receive::RECEIVE_SIZE_MIN;
use crate::transport::{Device, Received};
use crate::turns::Turns;
use crate::values::Errno;
use cenote_base::rt::{self, Condvar, Instant, Mutex, ranks};
use std::io::{IoSlice, IoSliceMut};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// How often a session that was cut is checked, and how often any other.
const CUT_POLL: Duration = Duration::from_millis(5);
const WAIT_POLL: Duration = Duration::from_secs(3600);

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
    pub config: SessionConfig,
    pub slots: Box<[Interrupt]>,
    pub free_slots: Mutex<Vec<usize>, ranks::FuseSlots>,
    pub waiting: AtomicUsize,
    pub callers: Callers,
    pub turns: Turns,
    /// A worker was started and does not wait yet.
    pub starting: AtomicBool,
    /// Requests since there were no workers to spare, or one left.
    pub surplus: AtomicUsize,
    /// Workers that wait for the kernel to send off stores.
    collecting: AtomicUsize,
    pub running: Mutex<usize, ranks::FuseWorkers>,
    pub all_ended: Condvar,
    overdue: Mutex<Overdue, ranks::FuseOverdue>,
    /// No request gets through to the file system any more.
    is_cut: AtomicBool,
    /// The file system knows that it has ended.
    is_told: AtomicBool,
}

impl Channel for Session {
    fn notify(&self, pieces: &[IoSlice<'_>]) -> Result<(), Errno> {
        self.device.notify(pieces)
    }

    fn begin_collecting(&self) -> Option<Collecting<'_>> {
        let limit = self.config.threads_max / 2;
        let more = |count| (count < limit).then_some(count + 1);
        let counted = self
            .collecting
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        counted.ok().map(|_| Collecting(&self.collecting))
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
            // There is no event for a cut session that becomes idle, so it is polled.
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
    pub fn tell_end(&self) {
        if !self.is_told.swap(true, Ordering::AcqRel) {
            self.file_system.destroy();
        }
    }

    /// Marks the request with this number as unwanted. False if no worker has it.
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

    /// Answers a request later if it continues although it was interrupted.
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
                    // The connection may have ended; then no caller waits.
                    let _ = device.send(&[IoSlice::new(&header)]);
                }
            }
            if is_last {
                return;
            }
        }
    }

    /// Publishes that `slot` works on `unique` until the guard is dropped; if `is_open`, other
    /// threads may answer it.
    pub fn working_on(slot: &Interrupt, unique: u64, is_open: bool) -> WorkingOn<'_> {
        slot.begin(unique, is_open);
        WorkingOn::new(slot)
    }
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
