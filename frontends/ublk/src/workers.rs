//! Threads that carry out requests, so that one that waits holds up no other.
//!
//! The queue's thread hands each request over and never waits for one. There may be as many
//! workers as the kernel may have requests under way, because all of them may wait for a pool
//! whose devices are gone; a worker is started when a request finds none idle, and leaves after a
//! while without work. Answers go back in a list, and an eventfd wakes the queue's thread.
//!
//! The data of a request is copied by its worker through the [`Window`], a descriptor that
//! reaches the kernel's own memory of the request. So a worker has memory of its own only, and one
//! that hangs can be given up: once the window is closed, it cannot reach the kernel any more.

use crate::Counters;
use crate::request::{Memory, Operation, Request, Transfer};
use cenote_base::rt::{self, Condvar, Mutex, ranks};
use cenote_nbd::BlockDevice;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a worker waits for work before it leaves.
const IDLE_TIME: Duration = Duration::from_secs(10);

/// How the kernel's memory of requests is reached.
pub(crate) trait Window: Send + Sync {
    /// As `preadv`, of the data of the request with this tag.
    fn fetch(&self, tag: u16, at: u64, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize>;

    /// As `pwritev`, of the data of the request with this tag.
    fn deliver(&self, tag: u16, at: u64, slices: &[IoSlice<'_>]) -> io::Result<usize>;
}

/// An answer: bytes, or the negative number of an error.
pub(crate) type Answer = (u16, i32);

struct State {
    jobs: VecDeque<(u16, Request)>,
    threads: usize,
    idle: usize,
    /// Workers that carry out a request.
    busy: usize,
    has_ended: bool,
}

/// The workers of a device.
pub(crate) struct Workers {
    device: Arc<dyn BlockDevice>,
    threads_max: usize,
    state: Mutex<State, ranks::UblkWorkers>,
    wake: Condvar,
    window: Mutex<Option<Arc<dyn Window>>, ranks::UblkWindow>,
    finished: Mutex<Vec<Answer>, ranks::UblkFinished>,
    /// Readable when there are answers, or the queue's thread is to look for another reason.
    event: OwnedFd,
    requests: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
}

impl Workers {
    /// None yet, for a device that may have this many requests under way.
    pub fn new(
        device: Arc<dyn BlockDevice>,
        threads_max: u16,
        window: Arc<dyn Window>,
    ) -> io::Result<Arc<Self>> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Self {
            device,
            threads_max: usize::from(threads_max),
            state: Mutex::new(State {
                jobs: VecDeque::new(),
                threads: 0,
                idle: 0,
                busy: 0,
                has_ended: false,
            }),
            wake: Condvar::new(),
            window: Mutex::new(Some(window)),
            finished: Mutex::new(Vec::new()),
            event,
            requests: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
        }))
    }

    /// What becomes readable when there are answers.
    pub fn event(&self) -> &OwnedFd {
        &self.event
    }

    /// Has the queue's thread look.
    pub fn notify(&self) {
        // It fails only when the event is already there 2^64 times.
        let _ = rustix::io::write(&self.event, &1_u64.to_le_bytes());
    }

    /// Takes the event back, before it is waited for again.
    pub fn settle(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.event, &mut count);
    }

    /// Hands a request over. There are never more of them than workers there may be.
    pub fn submit(self: &Arc<Self>, tag: u16, request: Request) {
        let mut state = self.state.lock();
        state.jobs.push_back((tag, request));
        if state.idle >= state.jobs.len() || state.threads >= self.threads_max {
            drop(state);
            return self.wake.notify_one();
        }
        state.threads += 1;
        drop(state);
        let workers = Arc::clone(self);
        let started = rt::spawn("ublk-worker", move || workers.work());
        if let Err(error) = started {
            self.could_not_start(&error);
        }
    }

    /// Without any worker, queued requests would wait for ever.
    fn could_not_start(&self, error: &io::Error) {
        log::warn!("a thread for requests of a kernel device could not be started: {error}");
        let mut state = self.state.lock();
        state.threads -= 1;
        if state.threads > 0 {
            return;
        }
        let jobs = std::mem::take(&mut state.jobs);
        drop(state);
        for (tag, _) in jobs {
            self.answer(tag, -Errno::NOMEM.raw_os_error());
        }
    }

    fn work(self: &Arc<Self>) {
        crate::kernel::mark_thread();
        let mut memory = Memory::default();
        while let Some((tag, request)) = self.next() {
            let data = Data { workers: self, tag };
            let perform = || request.perform(&*self.device, &data, &mut memory);
            let result = match rt::catch_unwind(AssertUnwindSafe(perform)) {
                Ok(Ok(())) => self.count(&request),
                Ok(Err(number)) => -number.raw_os_error(),
                // The kernel must have an answer; what was left half done is forgotten.
                Err(_) => {
                    memory = Memory::default();
                    -Errno::IO.raw_os_error()
                }
            };
            self.state.lock().busy -= 1;
            self.answer(tag, result);
        }
    }

    /// Waits for a request; `None` if this worker is to leave, and counts as gone.
    fn next(&self) -> Option<(u16, Request)> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                state.busy += 1;
                return Some(job);
            }
            let mut is_late = state.has_ended;
            if !is_late {
                state.idle += 1;
                (state, is_late) = self.wake.wait_timeout(state, IDLE_TIME);
                state.idle -= 1;
            }
            // Under the lock: the next submission sees that this worker has left.
            if (is_late || state.has_ended) && state.jobs.is_empty() {
                state.threads -= 1;
                return None;
            }
        }
    }

    /// Counts a successful request; returns the result for the kernel.
    fn count(&self, request: &Request) -> i32 {
        let bytes = match request.operation {
            Operation::Read => &self.read_bytes,
            Operation::Write => &self.written_bytes,
            _ => return 0,
        };
        bytes.fetch_add(request.length(), Ordering::Relaxed);
        i32::try_from(request.length()).expect("it has at most 32 MiB")
    }

    fn answer(&self, tag: u16, result: i32) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let mut finished = self.finished.lock();
        finished.push((tag, result));
        let is_first = finished.len() == 1;
        drop(finished);
        if is_first {
            self.notify();
        }
    }

    /// Takes the answers that there are.
    pub fn take_answers(&self, into: &mut Vec<Answer>) {
        into.append(&mut self.finished.lock());
    }

    /// Drops requests that no worker has begun; returns whether none is under way any more.
    pub fn abandon(&self) -> bool {
        let mut state = self.state.lock();
        state.jobs.clear();
        state.busy == 0
    }

    /// From now on no worker reaches the kernel's memory.
    pub fn close_window(&self) {
        self.window.lock().take();
    }

    /// Has the workers leave when they are through with what they have.
    pub fn end(&self) {
        self.state.lock().has_ended = true;
        self.wake.notify_all();
    }

    /// What was done.
    pub fn counters(&self) -> Counters {
        Counters {
            requests: self.requests.load(Ordering::Relaxed),
            read_bytes: self.read_bytes.load(Ordering::Relaxed),
            written_bytes: self.written_bytes.load(Ordering::Relaxed),
        }
    }

    fn window(&self) -> io::Result<Arc<dyn Window>> {
        let window = self.window.lock().clone();
        window.ok_or_else(|| Errno::NODEV.into())
    }
}

/// The data of one request.
struct Data<'a> {
    workers: &'a Workers,
    tag: u16,
}

/// Slices that one call takes at most (`IOV_MAX`).
const SLICES_MAX: usize = 1024;

impl Transfer for Data<'_> {
    fn fetch(&self, slices: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        let window = self.workers.window()?;
        let (mut at, mut rest) = (0_u64, slices);
        IoSliceMut::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            let most = rest.len().min(SLICES_MAX);
            let done = window.fetch(self.tag, at, &mut rest[..most])?;
            if done == 0 {
                return Err(Errno::IO.into());
            }
            at += done as u64;
            IoSliceMut::advance_slices(&mut rest, done);
        }
        Ok(())
    }

    fn deliver(&self, slices: &[IoSlice<'_>]) -> io::Result<()> {
        let window = self.workers.window()?;
        let mut slices = slices.to_vec();
        let (mut at, mut rest) = (0_u64, &mut slices[..]);
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            let most = rest.len().min(SLICES_MAX);
            let done = window.deliver(self.tag, at, &rest[..most])?;
            if done == 0 {
                return Err(Errno::IO.into());
            }
            at += done as u64;
            IoSlice::advance_slices(&mut rest, done);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
