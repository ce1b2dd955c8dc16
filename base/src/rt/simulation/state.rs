//! What the scheduler knows, and its decisions.
//!
//! Everything here is a function of the seed and of what the tasks did so far. Tasks are numbers
//! in the order in which they were started; addresses of locks are only compared for equality.

use super::super::random::Random;
use super::baton::Baton;
use std::fmt::Write as _;
use std::io::Write;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

/// What a scheduling point costs on the virtual clock, so that busy loops come to an end.
pub(super) const STEP: Duration = Duration::from_micros(1);

/// Scheduling points that the destructors of an abandoned task may use before it is left behind.
const LAST_STEPS: u32 = 10_000;

/// A runnable task is interrupted at one scheduling point in so many; each world draws one of
/// these.
const INTERRUPTIONS: [usize; 4] = [2, 8, 32, 128];

/// One wait in so many ends without a reason, as waits in a real system may.
const SPURIOUS: usize = 64;

/// A task: its place in the table.
pub(in super::super) type TaskId = usize;

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Key {
    /// A lock, by its address.
    Lock(usize),
    /// A condition variable, by its address.
    Condvar(usize),
    /// The end of a task.
    End(TaskId),
    /// The end of all tasks of a scope.
    Scope(u64),
    /// To be unparked.
    Park,
    /// Time only.
    Time,
    /// The end of all tasks that were abandoned.
    Abandoned,
    /// The end of all other tasks.
    Others,
}

/// Where and in which words a task came to a scheduling point.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Point {
    pub verb: &'static str,
    /// The rank of the lock, or nothing.
    pub name: &'static str,
    /// `None` where the reader knows already: a lock is released where its guard ends.
    pub at: Option<&'static Location<'static>>,
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let space = if self.name.is_empty() { "" } else { " " };
        write!(f, "{}{space}{}", self.verb, self.name)?;
        self.at.map_or(Ok(()), |at| write!(f, " at {at}"))
    }
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Woken {
    /// By another task, or for no reason.
    Notified,
    /// By the clock.
    TimedOut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Runnable,
    Blocked {
        on: Key,
        until: Option<Duration>,
    },
    Ended,
    /// Abandoned, and its destructors wait for something that never comes: its thread sleeps
    /// until the process ends.
    Left,
}

pub(super) struct TaskState {
    pub name: String,
    pub status: Status,
    pub woken: Woken,
    pub baton: Arc<Baton>,
    /// Whether it was unparked before it parked.
    pub has_token: bool,
    pub scope: Option<u64>,
    /// Whether it was abandoned and must unwind.
    pub is_doomed: bool,
    steps_left: u32,
    pub point: Option<Point>,
    /// Locks that it holds: address, and where it was taken.
    pub held: Vec<(usize, Point)>,
}

impl TaskState {
    fn is_over(&self) -> bool {
        matches!(self.status, Status::Ended | Status::Left)
    }

    fn is_stuck(&self) -> bool {
        self.is_doomed && matches!(self.status, Status::Blocked { .. })
    }
}

pub(super) struct State {
    seed: u64,
    pub random: Random,
    /// What `fill_random` gives out: its own sequence, so that it does not change the schedule.
    pub entropy: Random,
    pub now: Duration,
    /// The task that has the baton.
    pub running: Option<TaskId>,
    /// The task whose end ends the run.
    pub first: Option<TaskId>,
    pub tasks: Vec<TaskState>,
    /// Those that are not over, in the order in which they were started.
    present: Vec<TaskId>,
    interruptions: usize,
    pub scopes: u64,
    /// Scopes with a thread that panicked and was not joined.
    pub failed_scopes: Vec<u64>,
    pub is_spurious: bool,
    pub trace: Option<Box<dyn Write + Send>>,
    /// The report of a deadlock, after which all tasks are abandoned.
    pub failure: Option<String>,
    /// When a wait has lasted for ever, by the virtual clock.
    pub limit: Option<Duration>,
    /// The panic that the seed plans, if any.
    pub panic: Option<WantedPanic>,
    pub is_panic_wanted: bool,
}

/// A panic at a scheduling point that the seed chose.
pub(super) struct WantedPanic {
    /// Whether the task of this name may panic.
    pub is_eligible: fn(&str) -> bool,
    /// Points of such tasks that come before.
    pub points_left: u64,
}

impl State {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::stream(seed, 0);
        let interruptions = INTERRUPTIONS[random.draw(INTERRUPTIONS.len())];
        Self {
            seed,
            random,
            entropy: Random::stream(seed, 1),
            now: Duration::ZERO,
            running: None,
            first: None,
            tasks: Vec::new(),
            present: Vec::new(),
            interruptions,
            scopes: 0,
            failed_scopes: Vec::new(),
            is_spurious: true,
            trace: None,
            failure: None,
            limit: None,
            panic: None,
            is_panic_wanted: false,
        }
    }

    /// The planned panic, if this task should panic at this point.
    pub(super) fn take_panic(&mut self, task: TaskId) -> Option<WantedPanic> {
        let state = &self.tasks[task];
        let is_eligible =
            |wanted: &&mut WantedPanic| (wanted.is_eligible)(&state.name) && !state.is_doomed;
        let wanted = self.panic.as_mut().filter(is_eligible)?;
        if wanted.points_left > 0 {
            wanted.points_left -= 1;
            return None;
        }
        self.panic.take()
    }

    pub(super) fn add(&mut self, name: String, scope: Option<u64>, is_doomed: bool) -> TaskId {
        self.tasks.push(TaskState {
            name,
            status: Status::Runnable,
            woken: Woken::Notified,
            baton: Arc::default(),
            has_token: false,
            scope,
            is_doomed,
            steps_left: LAST_STEPS,
            point: None,
            held: Vec::new(),
        });
        let task = self.tasks.len() - 1;
        self.present.push(task);
        task
    }

    /// Writes a line to the trace, if there is one.
    pub(super) fn note(&mut self, task: TaskId, what: std::fmt::Arguments<'_>) {
        let Some(trace) = &mut self.trace else {
            return;
        };
        let (now, name) = (self.now, &self.tasks[task].name);
        let (seconds, micros) = (now.as_secs(), now.subsec_micros());
        let written = writeln!(trace, "{seconds}.{micros:06} #{task} {name}: {what}");
        // A trace that stops in the middle would pass for one that is equal to another.
        written.unwrap_or_else(|error| panic!("cannot write the trace: {error}"));
    }

    pub(super) fn wake(&mut self, task: TaskId, woken: Woken) {
        self.tasks[task].status = Status::Runnable;
        self.tasks[task].woken = woken;
    }

    fn waiters(&self, key: Key) -> Vec<TaskId> {
        let present = self.present.iter().copied();
        present.filter(|task| self.waits_for(*task, key)).collect()
    }

    fn waits_for(&self, task: TaskId, key: Key) -> bool {
        match self.tasks[task].status {
            Status::Blocked { on, .. } => on == key,
            _ => false,
        }
    }

    pub(super) fn wake_all(&mut self, key: Key) {
        for index in 0..self.present.len() {
            let task = self.present[index];
            if self.waits_for(task, key) {
                self.wake(task, Woken::Notified);
            }
        }
    }

    /// Wakes one that waits for `key`, drawn by the seed.
    pub(super) fn wake_one(&mut self, key: Key) {
        let waiters = self.waiters(key);
        if !waiters.is_empty() {
            let drawn = self.random.draw(waiters.len());
            self.wake(waiters[drawn], Woken::Notified);
        }
    }

    /// Whether a runnable task lets another one run first.
    pub(super) fn is_interrupted(&mut self) -> bool {
        self.random.draw(self.interruptions) == 0
    }

    /// Whether this wait ends without a reason.
    pub(super) fn is_wait_spurious(&mut self) -> bool {
        self.is_spurious && self.random.draw(SPURIOUS) == 0
    }

    pub(super) fn is_ended(&self, task: TaskId) -> bool {
        self.tasks[task].status == Status::Ended
    }

    /// Whether a task is over, as far as others that outlive it are concerned.
    pub(super) fn is_over(&self, task: TaskId) -> bool {
        self.tasks[task].is_over()
    }

    /// Whether all tasks of a scope ended. One that was left behind still borrows from it.
    pub(super) fn is_scope_over(&self, scope: u64) -> bool {
        let mut tasks = self.tasks.iter();
        tasks.all(|task| task.scope != Some(scope) || task.status == Status::Ended)
    }

    pub(super) fn are_others_over(&self, task: TaskId) -> bool {
        self.present.iter().all(|other| *other == task)
    }

    pub(super) fn are_doomed_over(&self) -> bool {
        let mut tasks = self.tasks.iter();
        tasks.all(|task| !task.is_doomed || task.is_over())
    }

    /// Notes that a task is over, and wakes all that waited for it.
    pub(super) fn end(&mut self, task: TaskId, status: Status) {
        self.tasks[task].status = status;
        self.present.retain(|other| *other != task);
        self.wake_all(Key::End(task));
        if let Some(scope) = self.tasks[task].scope {
            self.wake_all(Key::Scope(scope));
        }
        self.wake_all(Key::Abandoned);
        self.wake_all(Key::Others);
    }

    /// Counts a step of a task that unwinds; whether it has none left.
    pub(super) fn is_exhausted(&mut self, task: TaskId) -> bool {
        let state = &mut self.tasks[task];
        state.steps_left = state.steps_left.saturating_sub(u32::from(state.is_doomed));
        state.steps_left == 0
    }

    /// Has all tasks unwind but `survivor`.
    pub(super) fn doom(&mut self, survivor: Option<TaskId>) {
        for task in 0..self.tasks.len() {
            if Some(task) == survivor || self.tasks[task].is_over() {
                continue;
            }
            self.tasks[task].is_doomed = true;
            self.wake(task, Woken::Notified);
        }
    }

    /// The first task has unwound, if it had to, but ends after all others.
    pub(super) fn survive(&mut self, first: TaskId) {
        self.tasks[first].is_doomed = false;
        self.wake_all(Key::Abandoned);
    }

    /// Draws the task that runs next. `None` if all are over.
    pub(super) fn choose(&mut self) -> Option<TaskId> {
        loop {
            self.expire_timers();
            let count = self.runnable().count();
            if count > 0 {
                let drawn = self.random.draw(count);
                return self.runnable().nth(drawn);
            }
            if self.present.is_empty() {
                return None;
            }
            if !self.jump() {
                self.resolve_deadlock();
            }
        }
    }

    fn runnable(&self) -> impl Iterator<Item = TaskId> {
        let is_runnable = |task: &TaskId| self.tasks[*task].status == Status::Runnable;
        self.present.iter().copied().filter(is_runnable)
    }

    fn expire_timers(&mut self) {
        for index in 0..self.present.len() {
            let task = self.present[index];
            let until = self.deadline(task);
            if until.is_some_and(|until| until <= self.now) {
                self.wake(task, Woken::TimedOut);
            }
        }
    }

    fn deadline(&self, task: TaskId) -> Option<Duration> {
        match self.tasks[task].status {
            Status::Blocked { until, .. } => until,
            _ => None,
        }
    }

    /// Sets the clock to the next timer; whether there was one.
    fn jump(&mut self) -> bool {
        let timers = self.present.iter().filter_map(|task| self.deadline(*task));
        let Some(next) = timers.min() else {
            return false;
        };
        if self.limit.is_some_and(|limit| next > limit) && self.failure.is_none() {
            // Timers fire, and a thread still waits.
            return false;
        }
        self.now = self.now.max(next);
        true
    }

    /// Ends a deadlock: no task can run, now or later.
    fn resolve_deadlock(&mut self) {
        let is_stuck = |task: &TaskId| self.tasks[*task].is_stuck();
        let stuck: Vec<_> = (0..self.tasks.len()).filter(is_stuck).collect();
        if stuck.is_empty() {
            let report = self.report();
            self.note(0, format_args!("{report}"));
            self.failure = Some(report);
            self.doom(None);
            return;
        }
        for task in stuck {
            self.leave(task);
        }
    }

    /// Leaves a task behind whose destructors do not come to an end.
    pub(super) fn leave(&mut self, task: TaskId) {
        self.note(task, format_args!("left behind while it unwinds"));
        self.end(task, Status::Left);
    }

    fn report(&self) -> String {
        let seconds = self.now.as_secs_f64();
        let is_timed = self
            .present
            .iter()
            .any(|task| self.deadline(*task).is_some());
        let what = match is_timed {
            true => "its time is over, and not all tasks are",
            false => "deadlock, no task can continue",
        };
        let mut report = format!(
            "simulation with seed {}: {what} after {seconds:.6} s. Run the same seed with a trace \
             to see how it came to this.",
            self.seed
        );
        for (id, task) in self.tasks.iter().enumerate() {
            let Status::Blocked { on, .. } = task.status else {
                continue;
            };
            let place = task.point.map(|point| format!(": {point}"));
            let place = place.unwrap_or_default();
            let _ = write!(report, "\n  #{id} {}{place}{}", task.name, self.aim(on));
            for (_, point) in &task.held {
                let _ = write!(report, "; holds by {point}");
            }
        }
        report
    }

    fn aim(&self, key: Key) -> String {
        match key {
            Key::End(task) => format!(" (waits for the end of #{task} {})", self.tasks[task].name),
            Key::Lock(lock) => {
                let holds = |task: &&TaskState| task.held.iter().any(|(held, _)| *held == lock);
                let mut holders = (0..).zip(&self.tasks).filter(|(_, task)| holds(task));
                let holder = holders.next();
                holder.map_or_else(
                    || " (held in another world: locks in statics must be leaves)".to_owned(),
                    |(id, task)| format!(" (held by #{id} {})", task.name),
                )
            }
            _ => String::new(),
        }
    }
}
