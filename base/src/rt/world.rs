//! Worlds, and which one a thread belongs to.
//!
//! The process is the default world: real threads, the system's clock, one table of settings. A
//! test can make others. Threads inherit the world of the thread that starts them, so what runs
//! in one world never meets the settings, clocks or tasks of another.
//!
//! The product makes no second world. It pays for the possibility with one relaxed load of
//! [`HAS_OTHERS`] at each operation.

use super::simulation::{Scheduler, Task};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Whether this process ever made a world beside the default one.
static HAS_OTHERS: AtomicBool = AtomicBool::new(false);

/// Threads that share a clock, a scheduler, randomness and settings.
#[derive(Clone, Debug)]
pub struct World {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// `None` for real threads and the real clock.
    scheduler: Option<Arc<Scheduler>>,
    settings: Mutex<WorldSettings>,
}

/// Settings of a world that is not the default one: only what differs from the defaults.
#[derive(Debug, Default)]
pub(crate) struct WorldSettings {
    /// By name.
    pub numbers: BTreeMap<&'static str, u64>,
    /// Values of settings without a meaning.
    pub texts: BTreeMap<&'static str, String>,
}

/// What a thread knows about its place.
#[derive(Clone, Debug)]
pub(super) struct Place {
    world: World,
    task: Option<Task>,
}

thread_local! {
    /// `None` in the default world.
    static PLACE: RefCell<Option<Place>> = const { RefCell::new(None) };
}

impl World {
    /// Real threads and the real clock, but settings of its own, which begin as the defaults.
    pub fn real() -> Self {
        Self::new(None)
    }

    /// A world whose course of events is determined by `seed`.
    ///
    /// One task runs at a time, the clock is virtual, randomness is pseudorandom.
    pub fn simulated(seed: u64) -> Self {
        Self::new(Some(Arc::new(Scheduler::new(seed))))
    }

    fn new(scheduler: Option<Arc<Scheduler>>) -> Self {
        HAS_OTHERS.store(true, Ordering::Relaxed);
        let settings = Mutex::default();
        let inner = Arc::new(Inner {
            scheduler,
            settings,
        });
        Self { inner }
    }

    /// Writes a line for each scheduling decision and each [`trace!`](super::trace) to `sink`.
    ///
    /// The same seed gives the same bytes. A world without a scheduler writes nothing.
    #[must_use]
    pub fn trace_to(self, sink: impl Write + Send + 'static) -> Self {
        if let Some(scheduler) = &self.inner.scheduler {
            scheduler.trace_to(Box::new(sink));
        }
        self
    }

    /// Whether waits of a simulated world may end without a reason, as they do in real systems.
    /// The default is that one in 64 does.
    #[must_use]
    pub fn spurious_wakeups(self, are_on: bool) -> Self {
        if let Some(scheduler) = &self.inner.scheduler {
            scheduler.set_spurious(are_on);
        }
        self
    }

    /// Ends a simulated world with a report, as at a deadlock, if tasks are left at this time of
    /// its clock. A task that waits so long is taken to wait for ever.
    #[must_use]
    pub fn time_limit(self, limit: Duration) -> Self {
        if let Some(scheduler) = &self.inner.scheduler {
            scheduler.set_limit(limit);
        }
        self
    }

    /// Has one task of a simulated world panic, where tasks that `is_eligible` knows by name have
    /// come by `points` places at which a thread locks, waits, notifies, sends, receives or starts
    /// another.
    #[must_use]
    pub fn panic_at(self, points: u64, is_eligible: fn(&str) -> bool) -> Self {
        if let Some(scheduler) = &self.inner.scheduler {
            scheduler.want_panic(points, is_eligible);
        }
        self
    }

    /// Whether the panic of [`Self::panic_at`] came.
    pub fn has_panicked(&self) -> bool {
        let scheduler = self.inner.scheduler.as_ref();
        scheduler.is_some_and(|scheduler| scheduler.has_panicked())
    }

    /// Runs `work` in this world, on the calling thread.
    ///
    /// A simulated world returns when all its tasks are over.
    ///
    /// # Panics
    /// As `work` does. In a simulated world also at a deadlock, with a report of all tasks.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let task = self.inner.scheduler.as_ref();
        let task = task.map(|scheduler| scheduler.first("main"));
        let world = self.clone();
        let _entered = Place {
            world,
            task: task.clone(),
        }
        .enter();
        match task {
            Some(task) => task.run(work),
            None => work(),
        }
    }

    fn settings(&self) -> MutexGuard<'_, WorldSettings> {
        let settings = self.inner.settings.lock();
        settings.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Makes it the calling thread's place, until the returned value is dropped.
    pub(super) fn enter(self) -> Entered {
        Entered(PLACE.replace(Some(self)))
    }

    /// The place of a thread that the calling one starts, here or in the default world.
    pub(super) fn of_new_thread(self, task: Option<Task>) -> Self {
        Self { task, ..self }
    }

    pub(super) fn task(&self) -> Option<&Task> {
        self.task.as_ref()
    }
}

/// Gives the thread its former place back when it is dropped.
pub(super) struct Entered(Option<Place>);

impl Drop for Entered {
    fn drop(&mut self) {
        PLACE.set(self.0.take());
    }
}

/// Whether the thread could be in another world than the default one.
#[inline]
pub(super) fn are_others() -> bool {
    HAS_OTHERS.load(Ordering::Relaxed)
}

/// The calling thread's place, unless it is in the default world.
#[inline]
pub(super) fn place() -> Option<Place> {
    match are_others() {
        false => None,
        true => place_of_thread(),
    }
}

#[cold]
fn place_of_thread() -> Option<Place> {
    // A thread that is ending, and has lost its locals, is in no world any more.
    PLACE
        .try_with(|place| place.borrow().clone())
        .ok()
        .flatten()
}

/// The calling task, if it is in a simulated world.
#[inline]
pub(super) fn task() -> Option<Task> {
    match are_others() {
        false => None,
        true => task_of_thread(),
    }
}

#[cold]
fn task_of_thread() -> Option<Task> {
    let task = PLACE.try_with(|place| place.borrow().as_ref()?.task.clone());
    task.ok().flatten()
}

/// Does something with the settings of the thread's world, unless that is the default one.
#[inline]
pub(crate) fn with_world_settings<T>(work: impl FnOnce(&mut WorldSettings) -> T) -> Option<T> {
    place().map(|place| work(&mut place.world.settings()))
}
