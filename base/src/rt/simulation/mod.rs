//! The seeded scheduler of a simulated world.
//!
//! Each task is a thread of the system, but exactly one of them runs at a time: the one that has
//! the baton. At a scheduling point (before a lock, after an unlock, at a wait, a notification, a
//! message, a start, an end, a sleep) it draws the next one by the seed and waits until the baton
//! comes back. So a seed determines the whole course of events, on any machine and in any build.
//!
//! The scheduler interrupts a runnable task not at each point but at one in 2, 8, 32 or 128; the
//! seed draws which. Many faults need two threads that alternate at each step, others one that gets
//! far while another stands still. And each switch is a switch of the kernel's, the most expensive
//! part of a simulation.
//!
//! A task waits by leaving the queue with a [`Key`], under which others wake it. No other task runs
//! in between, so a task can check a condition and then wait without missing a wake-up. Locks need
//! only the `try_lock` of the standard library. The clock is virtual. It advances by a microsecond
//! at each scheduling point, and jumps to the next timer when no task can run. If there is no timer
//! either, that is a deadlock: its report names all tasks, what they wait for and what they hold,
//! and [`Scheduler::run`] panics with it.
//!
//! *Panics.* A world may inject a panic at a scheduling point, chosen by number, of threads that
//! may panic. Tests then check what such a thread leaves behind, and that its waiters are not
//! stuck.
//!
//! *Time.* A world may have an end. Threads that wake up now and then hide that others wait for
//! ever: at the end that is a failure like a deadlock, with the same report.
//!
//! *Abandoning.* A power cut stops all other tasks at their next scheduling point: they unwind
//! with a payload of their own, which no panic hook sees. Their destructors run as usual and may
//! lock and wait; tasks are not stopped twice. A destructor that waits for what never comes, or
//! takes more than 10,000 steps, is left behind: its thread sleeps until the process ends, and
//! its memory is lost. That is the price of not needing a rule for destructors.
//!
//! Deliberately absent: other orders of memory operations than the one that happened (atomics are
//! no scheduling points), and input or output that blocks, which would stop the whole world.

mod baton;
mod state;

pub(super) use state::{Key, Point, Woken};

use super::rank::RankInfo;
use state::{STEP, State, Status, TaskId, WantedPanic};
use std::any::Any;
use std::io::Write;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What an abandoned task unwinds with.
struct Abandoned;

/// How the words of a panic begin that the seed wanted.
const WANTED: &str = "a panic that the seed wants: ";

/// Whether a panic is the end of an abandoned task.
pub(super) fn is_abandonment(payload: &(dyn Any + Send)) -> bool {
    payload.is::<Abandoned>()
}

/// What joining a task that was left behind gives.
pub(super) fn abandonment() -> Box<dyn Any + Send> {
    Box::new(Abandoned)
}

/// Whether a wait may end by unwinding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Allowed,
    /// Others borrow from this task, and must end first.
    Never,
}

/// The scheduler of one world.
pub(super) struct Scheduler {
    seed: u64,
    state: Mutex<State>,
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scheduler({})", self.seed)
    }
}

impl Scheduler {
    pub(super) fn new(seed: u64) -> Self {
        let state = Mutex::new(State::new(seed));
        Self { seed, state }
    }

    pub(super) fn trace_to(&self, sink: Box<dyn Write + Send>) {
        self.state().trace = Some(sink);
    }

    pub(super) fn set_spurious(&self, is_spurious: bool) {
        self.state().is_spurious = is_spurious;
    }

    pub(super) fn set_limit(&self, limit: Duration) {
        self.state().limit = Some(limit);
    }

    pub(super) fn want_panic(&self, points_left: u64, is_eligible: fn(&str) -> bool) {
        let mut state = self.state();
        state.is_panic_wanted = true;
        state.panic = Some(WantedPanic {
            is_eligible,
            points_left,
        });
    }

    pub(super) fn has_panicked(&self) -> bool {
        let state = self.state();
        state.is_panic_wanted && state.panic.is_none()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the calling thread the first task, without starting it.
    pub(super) fn first(self: &Arc<Self>, name: &str) -> Task {
        let mut state = self.state();
        assert!(
            state.running.is_none(),
            "a world runs one closure at a time"
        );
        let id = state.add(name.to_owned(), None, false);
        state.running = Some(id);
        state.first = Some(id);
        let scheduler = Arc::clone(self);
        Task { scheduler, id }
    }
}

/// A task, as it sees its scheduler.
#[derive(Clone, Debug)]
pub(super) struct Task {
    scheduler: Arc<Scheduler>,
    id: TaskId,
}

impl Task {
    fn state(&self) -> MutexGuard<'_, State> {
        self.scheduler.state()
    }

    /// Runs `work` as the first task, and returns when all tasks are over.
    pub(super) fn run<T>(self, work: impl FnOnce() -> T) -> T {
        let result = catch_unwind(AssertUnwindSafe(work));
        self.state().survive(self.id);
        if result
            .as_ref()
            .is_err_and(|payload| !is_abandonment(&**payload))
        {
            // Others may wait for what this one will never do.
            self.state().doom(Some(self.id));
        }
        self.wait_until(Key::Others, "end", |state| state.are_others_over(self.id));
        let failure = self.close();
        let seed = self.scheduler.seed;
        match (result, failure) {
            (_, Some(failure)) => panic!("{failure}"),
            (Ok(value), None) => value,
            (Err(payload), None) if is_abandonment(&*payload) => panic!(
                "simulation with seed {seed}: another task abandoned the first one, which has to \
                 give the result. Call abandon_others in the first task"
            ),
            (Err(payload), None) => {
                eprintln!("the simulation with seed {seed} failed");
                resume_unwind(payload)
            }
        }
    }

    /// Ends the first task, and with it the run; returns the report of a deadlock.
    fn close(&self) -> Option<String> {
        let mut state = self.state();
        state.end(self.id, Status::Ended);
        state.running = None;
        state.first = None;
        if let Some(trace) = &mut state.trace {
            let flushed = trace.flush();
            flushed.unwrap_or_else(|error| panic!("cannot write the trace: {error}"));
        }
        state.failure.take()
    }

    /// Waits, whatever happens, until a condition holds.
    #[track_caller]
    fn wait_until(&self, key: Key, verb: &'static str, is_true: impl Fn(&State) -> bool) {
        let point = Point::here(verb, "");
        while !is_true(&self.state()) {
            self.block(key, None, point, Stop::Never);
        }
    }

    /// Draws the task that runs next and waits for the baton.
    fn switch<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let next = state.choose();
        state.running = next;
        if next == Some(self.id) {
            return state;
        }
        let baton = next.map(|next| Arc::clone(&state.tasks[next].baton));
        // The next one takes the state's lock at once.
        drop(state);
        if let Some(baton) = baton {
            baton.give();
        }
        self.await_baton()
    }

    fn await_baton(&self) -> MutexGuard<'_, State> {
        let baton = Arc::clone(&self.state().tasks[self.id].baton);
        loop {
            baton.take();
            let state = self.state();
            if state.running == Some(self.id) {
                return state;
            }
            if state.running.is_none() && state.first == Some(self.id) {
                self.give_up(&state);
            }
        }
    }

    /// The first task was left behind and all others are over, so `run` would never return.
    fn give_up(&self, state: &State) -> ! {
        let failure = state.failure.as_deref().unwrap_or("a task was abandoned");
        let name = &state.tasks[self.id].name;
        eprintln!("{failure}\nThe destructors of task {name} wait forever; the process is ended");
        std::process::abort()
    }

    /// Unwinds if the task was abandoned, unless it unwinds already.
    fn stop(&self, state: MutexGuard<'_, State>) {
        let is_doomed = state.tasks[self.id].is_doomed;
        drop(state);
        if is_doomed && !std::thread::panicking() {
            // No panic hook hears of it.
            resume_unwind(Box::new(Abandoned));
        }
    }

    /// A scheduling point: another task may run.
    pub(super) fn pause(&self, point: Point) {
        self.pause_or_yield(point, false);
    }

    /// A scheduling point of a task that waits for others: any task may run.
    pub(super) fn yield_now(&self, point: Point) {
        self.pause_or_yield(point, true);
    }

    /// Panics if the seed wants that here. These points stand for what a thread does between two of
    /// them. Destructors do little, and are relied on to come to their end: no panic is in them.
    fn fail_if_wanted(&self, point: &Point) {
        let is_place = matches!(point.verb, "lock" | "read" | "write" | "wait" | "sleep");
        if !is_place || std::thread::panicking() {
            return;
        }
        let Some(wanted) = self.state().take_panic(self.id) else {
            return;
        };
        let trace = std::backtrace::Backtrace::force_capture().to_string();
        if trace.contains("drop_in_place") || trace.contains("Drop>::drop") {
            // The next one will do.
            self.state().panic = Some(wanted);
            return;
        }
        self.note(format_args!("panics, {point}"));
        panic!("{WANTED}{point}");
    }

    fn pause_or_yield(&self, point: Point, yields: bool) {
        self.fail_if_wanted(&point);
        let mut state = self.state();
        state.now += STEP;
        state.note(self.id, format_args!("{point}"));
        state.tasks[self.id].point = Some(point);
        if state.is_exhausted(self.id) {
            state.leave(self.id);
        } else if !yields && !state.is_interrupted() {
            return self.stop(state);
        }
        let state = self.switch(state);
        self.stop(state);
    }

    /// Waits for `key`, at most until that time.
    pub(super) fn block(
        &self,
        key: Key,
        until: Option<Duration>,
        point: Point,
        stop: Stop,
    ) -> Woken {
        let mut state = self.state();
        if stop == Stop::Allowed {
            self.stop(state);
            self.fail_if_wanted(&point);
            state = self.state();
        }
        state.now += STEP;
        state.note(self.id, format_args!("blocked, {point}"));
        let task = &mut state.tasks[self.id];
        task.status = Status::Blocked { on: key, until };
        task.point = Some(point);
        if state.is_exhausted(self.id) {
            state.leave(self.id);
        }
        let state = self.switch(state);
        let woken = state.tasks[self.id].woken;
        if stop == Stop::Allowed {
            self.stop(state);
        }
        woken
    }

    /// As [`Self::block`], but it may end for no reason.
    pub(super) fn block_loosely(&self, key: Key, until: Option<Duration>, point: Point) -> Woken {
        if self.state().is_wait_spurious() {
            self.pause(point);
            return Woken::Notified;
        }
        self.block(key, until, point, Stop::Allowed)
    }

    pub(super) fn wake_all(&self, key: Key) {
        self.state().wake_all(key);
    }

    pub(super) fn wake_one(&self, key: Key) {
        self.state().wake_one(key);
    }

    /// Notes that the task has a lock.
    pub(super) fn hold(&self, lock: usize, point: Point) {
        self.state().tasks[self.id].held.push((lock, point));
    }

    /// Notes that the task releases a lock, and wakes the tasks that wait for it.
    pub(super) fn release(&self, lock: usize) {
        let mut state = self.state();
        let held = &mut state.tasks[self.id].held;
        if let Some(index) = held.iter().rposition(|(held, _)| *held == lock) {
            held.remove(index);
        }
        state.wake_all(Key::Lock(lock));
    }

    /// Starts a task, which waits for its turn in [`Self::enter`].
    pub(super) fn start(&self, name: &str, scope: Option<u64>) -> Self {
        let mut state = self.state();
        let is_doomed = state.tasks[self.id].is_doomed;
        let id = state.add(name.to_owned(), scope, is_doomed);
        state.note(self.id, format_args!("start #{id} {name}"));
        let scheduler = Arc::clone(&self.scheduler);
        Self { scheduler, id }
    }

    /// The task's thread could not be started.
    pub(super) fn cancel(&self) {
        self.state().end(self.id, Status::Ended);
    }

    /// Waits for the first turn; whether the task is to run at all.
    pub(super) fn enter(&self) -> bool {
        let state = self.await_baton();
        !state.tasks[self.id].is_doomed
    }

    /// Ends the task and hands the baton on.
    pub(super) fn leave(&self) {
        let mut state = self.state();
        state.note(self.id, format_args!("end"));
        state.end(self.id, Status::Ended);
        let next = state.choose();
        state.running = next;
        // The first task ends last. Even if it was left behind, it must see that all is over.
        let baton = next.or(state.first);
        let baton = baton.map(|next| Arc::clone(&state.tasks[next].baton));
        drop(state);
        if let Some(baton) = baton {
            baton.give();
        }
    }

    /// Waits for the end of another task; whether it ended, and was not left behind.
    #[track_caller]
    pub(super) fn join(&self, other: &Self) -> bool {
        let point = Point::here("join", "");
        self.pause(point);
        while !self.state().is_over(other.id) {
            self.block(Key::End(other.id), None, point, Stop::Allowed);
        }
        self.state().is_ended(other.id)
    }

    pub(super) fn is_over(&self) -> bool {
        self.state().is_over(self.id)
    }

    pub(super) fn new_scope(&self) -> u64 {
        let mut state = self.state();
        state.scopes += 1;
        state.scopes
    }

    #[track_caller]
    pub(super) fn join_scope(&self, scope: u64) {
        let is_over = |state: &State| state.is_scope_over(scope);
        self.wait_until(Key::Scope(scope), "join scope", is_over);
    }

    /// Notes that a thread of a scope panicked and no other thread joined it.
    pub(super) fn fail_scope(&self, scope: u64) {
        self.state().failed_scopes.push(scope);
    }

    pub(super) fn is_scope_failed(&self, scope: u64) -> bool {
        self.state().failed_scopes.contains(&scope)
    }

    /// Stops all other tasks, and waits until they are over.
    #[track_caller]
    pub(super) fn abandon_others(&self) {
        {
            let mut state = self.state();
            state.note(self.id, format_args!("abandon all others"));
            state.doom(Some(self.id));
        }
        self.wait_until(Key::Abandoned, "abandon", State::are_doomed_over);
    }

    pub(super) fn park(&self, until: Option<Duration>, point: Point) {
        self.pause(point);
        if !std::mem::take(&mut self.state().tasks[self.id].has_token) {
            self.block_loosely(Key::Park, until, point);
            self.state().tasks[self.id].has_token = false;
        }
    }

    pub(super) fn unpark(&self) {
        let mut state = self.state();
        state.tasks[self.id].has_token = true;
        if matches!(
            state.tasks[self.id].status,
            Status::Blocked { on: Key::Park, .. }
        ) {
            state.wake(self.id, Woken::Notified);
        }
    }

    /// The virtual time since the world began.
    pub(super) fn now(&self) -> Duration {
        let mut state = self.state();
        // Loops that look at the clock until it is late come to an end.
        state.now += STEP;
        state.now
    }

    /// The time at which a wait of that length ends; `None` for never.
    pub(super) fn deadline(&self, wait: Duration) -> Option<Duration> {
        self.state().now.checked_add(wait)
    }

    pub(super) fn fill_random(&self, buffer: &mut [u8]) {
        self.state().entropy.fill(buffer);
    }

    pub(super) fn note(&self, what: std::fmt::Arguments<'_>) {
        self.state().note(self.id, what);
    }
}

impl Point {
    #[track_caller]
    pub(super) fn here(verb: &'static str, name: &'static str) -> Self {
        let at = Some(Location::caller());
        Self { verb, name, at }
    }

    pub(super) fn of(verb: &'static str, rank: &RankInfo, at: &'static Location<'static>) -> Self {
        let (name, at) = (rank.name, Some(at));
        Self { verb, name, at }
    }

    pub(super) fn unlock(rank: &RankInfo) -> Self {
        let (verb, name, at) = ("unlock", rank.name, None);
        Self { verb, name, at }
    }
}
