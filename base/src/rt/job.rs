//! Long work in the background: scrubs, rebuilds, trims, uploads, heartbeats, watchers.
//!
//! *What all of it shares.* One thread at a time works in small steps, for hours or for as long as
//! a pool is open. Any thread may start the work, pause it, stop it, or query its progress. The
//! progress must survive the process, at least roughly. And the work waits: for the next beat, for
//! a rate limit, for something to do.
//!
//! *A job* is the owner's side of that. [`Job::start`] asks for work: the thread that is there
//! makes another step, or a thread is started. A step says in its [`Next`] when the one after it
//! is due. The work is a closure, or a [`Work`] where it has a record that outlives the process:
//! the job saves that now and then, before it rests and before it ends.
//!
//! *No request is lost.* One lock guards both whether a thread exists and whether a step is wanted.
//! A caller notes its request first. The thread ends or waits only if there was no request since
//! its last step began. A request that arrives while a run is being stopped starts a new run after
//! it. Only a panic drops requests: those made to the work that panicked.
//!
//! *No wait outlasts its reason.* Steps do not sleep; they return [`Next::After`]. A stop, a pause
//! and a request end each wait of a job at once. Steps that take long look at
//! [`Control::is_interrupted`] and return early; what is left is for the next step.
//!
//! *The end.* After [`Job::stop`] and [`Job::close`] no step runs, and the thread is gone. Dropping
//! a job ends its work without waiting, since the last owner may be the work itself. A panic ends
//! the work as a stop does, but without a last save: the record is the one before. The job reports
//! the panic to the work ([`Work::panicked`], [`guarded`]), so that the work can fail its waiters.
//!
//! All waits go through the module above, so simulated worlds run the same code. A job holds its
//! lock for a few instructions only, so callers may start work while they hold locks of their own.

use super::condvar::Condvar;
use super::mutex::{Mutex, MutexGuard};
use super::ranks;
use super::thread::{JoinHandle, catch_unwind, current, panic_words, spawn};
use super::time::Instant;
use std::fmt;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How much work a crash may cost: the time between two saves of a record.
const SAVE_INTERVAL: Duration = Duration::from_secs(5);

/// When the next step is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At once.
    Now,
    /// After this time, or earlier on a request.
    After(Duration),
    /// On the next request.
    WhenAsked,
    /// Never: the work is done. A request since this step began still causes another step.
    Done,
}

/// Work that is done in steps.
///
/// A closure from [`Control`] to [`Next`] is work without a record.
pub trait Work: Send + 'static {
    /// Does a piece of the work, of a few seconds at most.
    fn step(&mut self, control: &Control) -> Next;

    /// Looks up how far the work was when it ended last; called once, before the first step.
    fn load(&mut self, _control: &Control) {}

    /// Notes durably how far the work is.
    ///
    /// Called every few seconds between steps, before the job waits for a request or the end of a
    /// pause, and before it ends.
    fn save(&mut self) {}

    /// A step, load or save ended with a panic that says this; called last, in the same thread.
    ///
    /// The work must fail its waiters here: what they wait for will not be done.
    fn panicked(&mut self, _words: &str) {}
}

impl<F: FnMut(&Control) -> Next + Send + 'static> Work for F {
    fn step(&mut self, control: &Control) -> Next {
        self(control)
    }
}

/// Work of a single step.
pub fn once(work: impl FnOnce() + Send + 'static) -> impl Work {
    let mut work = Some(work);
    move |_: &Control| {
        if let Some(work) = work.take() {
            work();
        }
        Next::Done
    }
}

/// Work whose first step is due after this time.
pub fn after(first: Duration, mut work: impl Work) -> impl Work {
    let mut first = Some(first);
    move |control: &Control| match first.take() {
        Some(first) => Next::After(first),
        None => work.step(control),
    }
}

/// Work with a caller that hears of it if it ends with a panic.
pub fn guarded(work: impl Work, listener: impl Fn(&str) + Send + 'static) -> impl Work {
    Guarded { work, listener }
}

struct Guarded<W, L> {
    work: W,
    listener: L,
}

impl<W: Work, L: Fn(&str) + Send + 'static> Work for Guarded<W, L> {
    fn step(&mut self, control: &Control) -> Next {
        self.work.step(control)
    }

    fn load(&mut self, control: &Control) {
        self.work.load(control);
    }

    fn save(&mut self) {
        self.work.save();
    }

    fn panicked(&mut self, words: &str) {
        self.work.panicked(words);
        (self.listener)(words);
    }
}

/// How far some work is, in bytes or whatever it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// What is done.
    pub done: u64,
    /// All there is to do; 0 where that is not known.
    pub total: u64,
    /// What was done within `elapsed`: less than `done` where the work was resumed.
    pub fresh: u64,
    /// The time that it was worked on.
    pub elapsed: Duration,
}

impl Progress {
    /// What was done in a second; 0 where no time has passed.
    pub fn rate(&self) -> u64 {
        let scaled = u128::from(self.fresh) * 1_000_000_000;
        let rate = scaled.checked_div(self.elapsed.as_nanos());
        u64::try_from(rate.unwrap_or(0)).unwrap_or(u64::MAX)
    }

    /// The seconds until all is done at this rate; `None` if that is 0.
    pub fn seconds_left(&self) -> Option<u64> {
        let left = self.total.saturating_sub(self.done);
        left.checked_div(self.rate())
    }

    /// What is done, in hundredths of all; nothing to do is done.
    pub fn percent(&self) -> f64 {
        match self.total {
            0 => 100.0,
            total => self.done as f64 * 100.0 / total as f64,
        }
    }
}

/// Work that one thread at a time does.
#[derive(Debug, Default)]
pub struct Job {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State, ranks::Job>,
    /// Something in the state is different.
    changed: Condvar,
    /// The step under way is to return early; follows from the state.
    is_interrupted: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Whether the work was requested since the last step began.
    is_asked: bool,
    /// The run that is under way: the steps of one work.
    run: Option<u64>,
    /// Runs that were started.
    runs: u64,
    /// Runs up to this one are to end.
    ends_to: u64,
    /// How many pauses hold the work back.
    pauses: usize,
    /// There is no step under way or due: it waits for a request.
    is_idle: bool,
    /// The job is closed: no more work is done.
    is_closed: bool,
    /// What the thread does when it has come to the end of a run, or to its beginning.
    following: Option<Box<dyn Work>>,
    thread: Option<JoinHandle<()>>,
    /// The most that is done in a second; 0 for no limit.
    rate: u64,
    done: u64,
    total: u64,
    /// What this run has done, and when it began.
    fresh: u64,
    begun: Option<Instant>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("run", &self.run)
            .field("is_asked", &self.is_asked)
            .field("pauses", &self.pauses)
            .finish_non_exhaustive()
    }
}

impl State {
    fn is_ending(&self, run: u64) -> bool {
        run <= self.ends_to
    }

    /// Has the run under way end; the work that was to follow it.
    #[must_use = "it is dropped without the lock"]
    fn end_run(&mut self) -> Option<Box<dyn Work>> {
        self.ends_to = self.runs;
        self.is_asked = false;
        self.following.take()
    }

    /// Begins a run, whose work is in `following`.
    fn begin_run(&mut self) {
        self.runs += 1;
        self.run = Some(self.runs);
        self.fresh = 0;
        self.begun = Some(Instant::now());
        self.ask();
    }

    fn ask(&mut self) {
        self.is_asked = true;
        self.is_idle = false;
    }
}

impl Job {
    /// A job without work.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests the work: a step begins after this call, unless the job is stopped first.
    ///
    /// A running thread makes this step, with its own work; `work` is dropped. Otherwise a thread
    /// of this name is started.
    ///
    /// # Errors
    /// If the system cannot start a thread. The work then waits for the next request.
    pub fn start(&self, name: &str, work: impl Work) -> io::Result<()> {
        let shared = &self.shared;
        let mut state = shared.lock();
        if state.is_closed {
            return Ok(());
        }
        if let Some(run) = state.run {
            let unused: Option<Box<dyn Work>> = match state.is_ending(run) {
                true => state.following.replace(Box::new(work)),
                false => {
                    state.ask();
                    Some(Box::new(work))
                }
            };
            shared.tell(state);
            drop(unused);
            return Ok(());
        }
        let before = state.thread.take();
        state.begin_run();
        state.following = Some(Box::new(work));
        let own = Arc::clone(shared);
        let thread = spawn(name, move || {
            // It has made its last step, and is about to end.
            let _ = before.map(JoinHandle::join);
            own.work();
        });
        let unused = match &thread {
            Ok(_) => None,
            Err(_) => {
                state.run = None;
                state.following.take()
            }
        };
        let started = thread.map(|thread| state.thread = Some(thread));
        shared.tell(state);
        drop(unused);
        started
    }

    /// Asks the thread for another step, if there is one.
    pub fn wake(&self) {
        let mut state = self.shared.lock();
        if state.run.is_some_and(|run| !state.is_ending(run)) {
            state.ask();
            self.shared.tell(state);
        }
    }

    /// Holds the work back until the returned value is dropped: it asks the step under way to
    /// return early, and no other step begins. This does not wait for the step.
    #[must_use = "the work resumes when this is dropped"]
    pub fn pause(&self) -> Pause {
        let mut state = self.shared.lock();
        state.pauses += 1;
        self.shared.tell(state);
        Pause(Arc::clone(&self.shared))
    }

    /// Has the work end after the step under way, without waiting for it.
    pub fn cancel(&self) {
        let mut state = self.shared.lock();
        let following = state.end_run();
        self.shared.tell(state);
        drop(following);
    }

    /// Ends the work and waits for it. It may be started again.
    ///
    /// Called by the work itself this does not wait.
    pub fn stop(&self) {
        self.end(false);
    }

    /// Ends the work for good, and waits for it: [`Self::start`] does nothing from now on.
    pub fn close(&self) {
        self.end(true);
    }

    fn end(&self, is_for_good: bool) {
        let shared = &self.shared;
        let mut state = shared.lock();
        state.is_closed |= is_for_good;
        let following = state.end_run();
        let last = state.ends_to;
        let own = current().id();
        let is_own = |thread: &JoinHandle<()>| thread.thread().id() == own;
        let is_by_itself = state.thread.as_ref().is_some_and(is_own);
        shared.tell(state);
        drop(following);
        if is_by_itself {
            return;
        }
        let is_there = |state: &mut State| state.run.is_some_and(|run| run <= last);
        let mut state = shared.changed.wait_while(shared.lock(), is_there);
        let is_over = state.run.is_none();
        let thread = is_over.then(|| state.thread.take()).flatten();
        drop(state);
        // Panics of the work do not come so far.
        let _ = thread.map(JoinHandle::join);
    }

    /// Whether there is work that is not done: a step is under way, or will be.
    pub fn is_at_work(&self) -> bool {
        self.shared.lock().run.is_some()
    }

    /// Waits until there is nothing to do, at most until `end`; whether that is so.
    pub fn wait_idle(&self, end: Instant) -> bool {
        let left = end.saturating_duration_since(Instant::now());
        let is_busy = |state: &mut State| state.run.is_some() && !state.is_idle;
        let state = self.shared.lock();
        let waited = self.shared.changed.wait_timeout_while(state, left, is_busy);
        !waited.1
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let state = self.shared.lock();
        let begun = state.begun.filter(|_| state.run.is_some());
        Progress {
            done: state.done,
            total: state.total,
            fresh: state.fresh,
            elapsed: begun.map_or(Duration::ZERO, |begun| begun.elapsed()),
        }
    }

    /// Says how far it is: what is known before it begins.
    pub fn set_progress(&self, done: u64, total: u64) {
        let mut state = self.shared.lock();
        (state.done, state.total) = (done, total);
    }

    /// Sets the most that is done in a second; 0 for no limit.
    pub fn set_rate(&self, rate: u64) {
        let mut state = self.shared.lock();
        state.rate = rate;
        self.shared.tell(state);
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_closed = true;
        let following = state.end_run();
        self.shared.tell(state);
        drop(following);
    }
}

/// Holds back the work of a job.
#[derive(Debug)]
pub struct Pause(Arc<Shared>);

impl Drop for Pause {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.pauses -= 1;
        self.0.tell(state);
    }
}

/// The work's side of a job: through it the work sees requests and reports progress.
#[derive(Clone, Debug)]
pub struct Control {
    shared: Arc<Shared>,
    run: u64,
}

impl Control {
    /// Whether the step under way is to return early: the work is paused, or to end.
    pub fn is_interrupted(&self) -> bool {
        self.shared.is_interrupted.load(Ordering::Acquire)
    }

    /// Notes that so much more is done, and waits as the rate limit wants it.
    pub fn advance(&self, amount: u64) {
        let mut state = self.shared.lock();
        state.fresh = state.fresh.saturating_add(amount);
        let done = state.done.saturating_add(amount);
        state.done = match state.total {
            0 => done,
            total => done.min(total),
        };
        while state.rate > 0 && !self.shared.is_interrupted.load(Ordering::Acquire) {
            let due = u128::from(state.fresh) * 1000 / u128::from(state.rate);
            let due = Duration::from_millis(u64::try_from(due).unwrap_or(u64::MAX));
            let passed = state.begun.map_or(due, |begun| begun.elapsed());
            let left = due.saturating_sub(passed);
            if left.is_zero() {
                break;
            }
            state = self.shared.changed.wait_timeout(state, left).0;
        }
    }

    /// Notes that all is done.
    pub fn complete(&self) {
        let mut state = self.shared.lock();
        state.done = state.total;
    }
}

/// What a thread does next.
enum Turn {
    Step,
    Save,
    /// And whether another run begins.
    End(bool),
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Wakes the threads that wait for a change of the state.
    fn tell(&self, state: MutexGuard<'_, State>) {
        let is_ending = state.run.is_some_and(|run| state.is_ending(run));
        let is_interrupted = state.pauses > 0 || is_ending;
        self.is_interrupted.store(is_interrupted, Ordering::Release);
        drop(state);
        self.changed.notify_all();
    }

    /// The thread: one work after the other.
    fn work(self: &Arc<Self>) {
        let mut goes_on = true;
        while goes_on && let Some((run, mut work)) = self.take_work() {
            let control = Control {
                shared: Arc::clone(self),
                run,
            };
            let ended = Ended(&control);
            // What it shares with others is consistent by the reasons that hold for locks.
            let steps = catch_unwind(AssertUnwindSafe(|| control.steps(&mut *work)));
            if let Err(payload) = &steps {
                let words = panic_words(&**payload);
                // The run ends, even if this call panics, too.
                let _ = catch_unwind(AssertUnwindSafe(|| work.panicked(words)));
            }
            let _ = catch_unwind(AssertUnwindSafe(|| drop(work)));
            goes_on = steps.unwrap_or_else(|_| control.leave(self.lock()));
            drop(ended);
        }
    }

    /// The work of the run that was begun, or `None` if it was taken away, which ends the run.
    fn take_work(&self) -> Option<(u64, Box<dyn Work>)> {
        let mut state = self.lock();
        let is_ending = state.run.is_some_and(|run| state.is_ending(run));
        if is_ending && state.following.is_some() {
            // It was asked for after the end of a run that made no step.
            state.begin_run();
        }
        let work = state.following.take();
        let run = state.run.filter(|_| work.is_some());
        if run.is_none() {
            state.run = None;
        }
        self.tell(state);
        run.zip(work)
    }
}

impl Control {
    /// Makes steps until the run is over; whether the thread has another one.
    fn steps(&self, work: &mut dyn Work) -> bool {
        work.load(self);
        let mut next = Next::Done;
        let mut saved = Instant::now();
        let mut is_saved = true;
        loop {
            match self.turn(next, is_saved) {
                Turn::Step => {
                    next = work.step(self);
                    is_saved = false;
                    if saved.elapsed() < SAVE_INTERVAL {
                        continue;
                    }
                }
                Turn::Save => {}
                Turn::End(goes_on) => return goes_on,
            }
            work.save();
            is_saved = true;
            saved = Instant::now();
        }
    }

    /// Waits until there is something to do.
    fn turn(&self, next: Next, is_saved: bool) -> Turn {
        let shared = &self.shared;
        let due = match next {
            Next::After(time) => Instant::now().checked_add(time),
            _ => None,
        };
        let mut state = shared.lock();
        loop {
            let is_ending = state.is_ending(self.run);
            let is_held = state.pauses > 0 && !is_ending;
            let is_due = !is_ending && !is_held;
            let mut left = None;
            if is_due {
                let is_asked = std::mem::take(&mut state.is_asked);
                left = due.map(|due| due.saturating_duration_since(Instant::now()));
                if is_asked || next == Next::Now || left == Some(Duration::ZERO) {
                    state.is_idle = false;
                    return Turn::Step;
                }
            }
            let waits_long = is_held || left.is_none();
            if waits_long && !is_saved {
                return Turn::Save;
            }
            if is_ending || is_due && next == Next::Done {
                return Turn::End(self.leave(state));
            }
            if is_due && next == Next::WhenAsked && !state.is_idle {
                state.is_idle = true;
                shared.changed.notify_all();
            }
            state = match left {
                Some(left) => shared.changed.wait_timeout(state, left).0,
                None => shared.changed.wait(state),
            };
        }
    }

    /// Ends the run: a request from now on starts another one. Returns whether one has begun.
    fn leave(&self, mut state: MutexGuard<'_, State>) -> bool {
        if state.run != Some(self.run) {
            return false;
        }
        let is_followed = state.following.is_some();
        match is_followed {
            true => state.begin_run(),
            false => state.run = None,
        }
        self.shared.tell(state);
        is_followed
    }
}

/// Ends a run whose task was abandoned.
struct Ended<'a>(&'a Control);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.leave(self.0.shared.lock());
    }
}
