//! Threads: started, joined, parked.
//!
//! A thread inherits the world of the one that starts it. Threads have names, which `ps -L`, logs
//! and traces show.

use super::simulation::{self, Point, Task};
use super::world::{self, Place};
use std::any::Any;
use std::io;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind as std_catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use std::thread::{Result, ThreadId, panicking};

/// How many threads of a simulated world would run at once if they could.
const SIMULATED_PARALLELISM: NonZero<usize> = NonZero::new(2).expect("two");

/// Where a task leaves its result.
struct Packet<T> {
    result: Mutex<Option<Result<T>>>,
    /// The scope that fails if no thread joins this one after a panic.
    scope: Option<(Task, u64)>,
}

impl<T> Packet<T> {
    fn new(scope: Option<(Task, u64)>) -> Arc<Self> {
        let result = Mutex::new(None);
        Arc::new(Self { result, scope })
    }

    fn put(&self, result: Result<T>) {
        let mut slot = self.result.lock().unwrap_or_else(PoisonError::into_inner);
        *slot = Some(result);
    }

    fn take(&self) -> Option<Result<T>> {
        let mut slot = self.result.lock().unwrap_or_else(PoisonError::into_inner);
        slot.take()
    }
}

impl<T> Drop for Packet<T> {
    fn drop(&mut self) {
        let result = self.take();
        if let (Some(Err(payload)), Some((task, scope))) = (&result, &self.scope)
            && !simulation::is_abandonment(&**payload)
        {
            task.fail_scope(*scope);
        }
    }
}

/// A thread of a simulated world, from its first turn to its end.
fn run_task<T>(place: Place, task: &Task, packet: Arc<Packet<T>>, work: impl FnOnce() -> T) {
    let _entered = place.enter();
    let result = std_catch_unwind(AssertUnwindSafe(|| {
        if !task.enter() {
            resume_unwind(simulation::abandonment());
        }
        work()
    }));
    packet.put(result);
    // If no thread joins, the result is dropped here, as part of the task.
    let _ = std_catch_unwind(AssertUnwindSafe(|| drop(packet)));
    task.leave();
}

/// Starts a thread.
///
/// # Errors
/// The system has no room for another one.
#[track_caller]
pub fn spawn<T: Send + 'static>(
    name: impl Into<String>,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let name = name.into();
    let Some(place) = world::place() else {
        let builder = std::thread::Builder::new().name(name);
        return builder
            .spawn(work)
            .map(|thread| JoinHandle(Joined::Real(thread)));
    };
    let started = place.task().map(|parent| parent.start(&name, None));
    let place = place.of_new_thread(started.clone());
    let builder = std::thread::Builder::new().name(name);
    let Some(task) = started else {
        let thread = builder.spawn(move || {
            let _entered = place.enter();
            work()
        });
        return thread.map(|thread| JoinHandle(Joined::Real(thread)));
    };
    let packet = Packet::new(None);
    let (own, own_packet) = (task.clone(), Arc::clone(&packet));
    let thread = builder.spawn(move || run_task(place, &own, own_packet, work));
    let thread = thread.inspect_err(|_| task.cancel())?;
    pause("spawn");
    Ok(JoinHandle(Joined::Simulated {
        thread,
        task,
        packet,
    }))
}

/// How a thread is waited for; `H` is the system's thread with a result, `U` one without.
enum Joined<H, U, T> {
    Real(H),
    Simulated {
        thread: U,
        task: Task,
        packet: Arc<Packet<T>>,
    },
}

/// Waits for a task of a simulated world; `false` if its thread will never end.
#[track_caller]
fn join_task(task: &Task) -> bool {
    match world::task() {
        Some(caller) => caller.join(task),
        None => true,
    }
}

fn outcome<T>(packet: &Packet<T>) -> Result<T> {
    packet
        .take()
        .unwrap_or_else(|| Err(simulation::abandonment()))
}

/// A thread that can be waited for. The thread keeps running if this is dropped.
pub struct JoinHandle<T>(Joined<std::thread::JoinHandle<T>, std::thread::JoinHandle<()>, T>);

impl<T> JoinHandle<T> {
    /// Waits for the thread's end.
    ///
    /// # Errors
    /// What it panicked with.
    #[track_caller]
    pub fn join(self) -> Result<T> {
        match self.0 {
            Joined::Real(thread) => thread.join(),
            Joined::Simulated {
                thread,
                task,
                packet,
            } => {
                if join_task(&task) {
                    thread.join()?;
                }
                outcome(&packet)
            }
        }
    }

    /// Whether the thread has come to its end.
    pub fn is_finished(&self) -> bool {
        match &self.0 {
            Joined::Real(thread) => thread.is_finished(),
            Joined::Simulated { task, .. } => task.is_over(),
        }
    }

    /// The thread.
    pub fn thread(&self) -> Thread {
        match &self.0 {
            Joined::Real(thread) => Thread::new(thread.thread().clone(), None),
            Joined::Simulated { thread, task, .. } => {
                Thread::new(thread.thread().clone(), Some(task.clone()))
            }
        }
    }
}

impl<T> std::fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JoinHandle")
    }
}

/// Starts threads that may borrow, and waits for all of them before it returns.
///
/// # Panics
/// If `work` panics, or a thread that was not joined.
#[track_caller]
pub fn scope<'env, T>(work: impl for<'scope> FnOnce(Scope<'scope, 'env>) -> T) -> T {
    let Some(task) = world::task() else {
        return std::thread::scope(|inner| work(Scope { inner, id: None }));
    };
    let id = task.new_scope();
    std::thread::scope(|inner| {
        let scope = Scope {
            inner,
            id: Some(id),
        };
        let result = std_catch_unwind(AssertUnwindSafe(|| work(scope)));
        task.join_scope(id);
        match result {
            Ok(_) if task.is_scope_failed(id) => panic!("a scoped thread panicked"),
            Ok(value) => value,
            Err(payload) => resume_unwind(payload),
        }
    })
}

/// Where threads that may borrow are started.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    inner: &'scope std::thread::Scope<'scope, 'env>,
    /// In a simulated world.
    id: Option<u64>,
}

impl<'scope> Scope<'scope, '_> {
    /// Starts a thread.
    ///
    /// # Panics
    /// If the system has no room for another one.
    #[track_caller]
    pub fn spawn<T: Send + 'scope>(
        &self,
        work: impl FnOnce() -> T + Send + 'scope,
    ) -> ScopedJoinHandle<'scope, T> {
        let thread = self.spawn_named("scoped", work);
        thread.unwrap_or_else(|error| panic!("cannot start a thread: {error}"))
    }

    /// Starts a thread with a name.
    ///
    /// # Errors
    /// The system has no room for another one.
    #[track_caller]
    pub fn spawn_named<T: Send + 'scope>(
        &self,
        name: impl Into<String>,
        work: impl FnOnce() -> T + Send + 'scope,
    ) -> io::Result<ScopedJoinHandle<'scope, T>> {
        let name = name.into();
        let Some(place) = world::place() else {
            let builder = std::thread::Builder::new().name(name);
            let thread = builder.spawn_scoped(self.inner, work);
            return thread.map(|thread| ScopedJoinHandle(Joined::Real(thread)));
        };
        let started = place.task().map(|parent| parent.start(&name, self.id));
        let place = place.of_new_thread(started.clone());
        let builder = std::thread::Builder::new().name(name);
        let Some(task) = started else {
            let thread = builder.spawn_scoped(self.inner, move || {
                let _entered = place.enter();
                work()
            });
            return thread.map(|thread| ScopedJoinHandle(Joined::Real(thread)));
        };
        let packet = Packet::new(self.id.map(|id| (task.clone(), id)));
        let (own, own_packet) = (task.clone(), Arc::clone(&packet));
        let body = move || run_task(place, &own, own_packet, work);
        let thread = builder.spawn_scoped(self.inner, body);
        let thread = thread.inspect_err(|_| task.cancel())?;
        pause("spawn");
        Ok(ScopedJoinHandle(Joined::Simulated {
            thread,
            task,
            packet,
        }))
    }
}

/// The system's thread of a scope.
type ScopedThread<'scope, T> = std::thread::ScopedJoinHandle<'scope, T>;

/// A thread of a scope, which can be waited for.
pub struct ScopedJoinHandle<'scope, T>(
    Joined<ScopedThread<'scope, T>, ScopedThread<'scope, ()>, T>,
);

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for the thread's end.
    ///
    /// # Errors
    /// What it panicked with.
    #[track_caller]
    pub fn join(self) -> Result<T> {
        match self.0 {
            Joined::Real(thread) => thread.join(),
            Joined::Simulated {
                thread,
                task,
                packet,
            } => {
                if join_task(&task) {
                    thread.join()?;
                }
                outcome(&packet)
            }
        }
    }

    /// Whether the thread has come to its end.
    pub fn is_finished(&self) -> bool {
        match &self.0 {
            Joined::Real(thread) => thread.is_finished(),
            Joined::Simulated { task, .. } => task.is_over(),
        }
    }

    /// The thread.
    pub fn thread(&self) -> Thread {
        match &self.0 {
            Joined::Real(thread) => Thread::new(thread.thread().clone(), None),
            Joined::Simulated { thread, task, .. } => {
                Thread::new(thread.thread().clone(), Some(task.clone()))
            }
        }
    }
}

impl<T> std::fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ScopedJoinHandle")
    }
}

/// A thread that can be woken.
#[derive(Clone, Debug)]
pub struct Thread {
    inner: std::thread::Thread,
    task: Option<Task>,
}

impl Thread {
    fn new(inner: std::thread::Thread, task: Option<Task>) -> Self {
        Self { inner, task }
    }

    /// Its identity in this process.
    pub fn id(&self) -> ThreadId {
        self.inner.id()
    }

    /// Its name, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.inner.name()
    }

    /// Ends its [`park`], or the next one.
    #[track_caller]
    pub fn unpark(&self) {
        match &self.task {
            None => self.inner.unpark(),
            Some(task) => {
                pause("unpark");
                task.unpark();
            }
        }
    }
}

/// The calling thread.
pub fn current() -> Thread {
    Thread::new(std::thread::current(), world::task())
}

/// Waits until another thread calls [`Thread::unpark`]; may return earlier.
#[track_caller]
pub fn park() {
    match world::task() {
        None => std::thread::park(),
        Some(task) => task.park(None, Point::here("park", "")),
    }
}

/// As [`park`], at most for so long.
#[track_caller]
pub fn park_timeout(limit: Duration) {
    match world::task() {
        None => std::thread::park_timeout(limit),
        Some(task) => task.park(task.deadline(limit), Point::here("park", "")),
    }
}

/// Lets others run.
#[track_caller]
pub fn yield_now() {
    match world::task() {
        None => std::thread::yield_now(),
        Some(task) => task.yield_now(Point::here("yield", "")),
    }
}

#[track_caller]
fn pause(verb: &'static str) {
    if let Some(task) = world::task() {
        task.pause(Point::here(verb, ""));
    }
}

/// How many threads can run at once.
///
/// # Errors
/// The system does not say.
pub fn available_parallelism() -> io::Result<NonZero<usize>> {
    match world::task() {
        None => std::thread::available_parallelism(),
        Some(_) => Ok(SIMULATED_PARALLELISM),
    }
}

/// Does something that may panic.
///
/// As the standard library's, but it does not catch the end of a task that was abandoned.
///
/// # Errors
/// What `work` panicked with.
pub fn catch_unwind<T>(work: impl FnOnce() -> T + std::panic::UnwindSafe) -> Result<T> {
    let result: Result<T> = std_catch_unwind(work);
    match result {
        Err(payload) if simulation::is_abandonment(&*payload) => resume_unwind(payload),
        result => result,
    }
}

/// What a panic said.
pub fn panic_words(payload: &(dyn Any + Send)) -> &str {
    let words = payload.downcast_ref::<String>().map(String::as_str);
    let words = words.or_else(|| payload.downcast_ref::<&str>().copied());
    words.unwrap_or("it said nothing")
}

/// Stops all other tasks of a simulated world where they are, as a power cut does.
///
/// They unwind; their destructors run. Returns when all of them are over. The calling task keeps
/// running, and may start others.
///
/// # Panics
/// In a real world, where threads cannot be stopped from outside.
#[track_caller]
pub fn abandon_others() {
    let task = world::task();
    let task = task.expect("only threads of a simulated world can be stopped");
    task.abandon_others();
}

/// Whether the thread is in a simulated world.
#[inline]
pub fn is_simulated() -> bool {
    world::task().is_some()
}

/// Writes a line to the trace of a simulated world; [`trace!`](super::trace) calls it.
pub fn note(what: std::fmt::Arguments<'_>) {
    if let Some(task) = world::task() {
        task.note(what);
    }
}
