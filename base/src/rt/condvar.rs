//! Condition variables.
//!
//! Waits may end without a notification, in simulated worlds too (there by the seed), so callers
//! check their condition again after each wait. A waiting thread has released its mutex and locks
//! it again when it wakes up. The order of locks is checked as for any other lock: a thread that
//! holds a lock that comes later in the order could deadlock with the thread that wakes it.

use super::mutex::MutexGuard;
use super::simulation::{Key, Point, Task, Woken};
use super::time::Instant;
use super::world;
use std::fmt;
use std::panic::Location;
use std::sync::PoisonError;
use std::time::Duration;

/// Threads wait here until another thread notifies them of a change.
#[derive(Default)]
pub struct Condvar {
    // Its address is its identity in a simulated world; a condition variable of the standard
    // library's is at least four bytes long, so no two have the same.
    inner: std::sync::Condvar,
}

impl Condvar {
    /// A condition variable.
    pub const fn new() -> Self {
        let inner = std::sync::Condvar::new();
        Self { inner }
    }

    /// Releases the mutex and waits for a notification.
    #[track_caller]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let at = Location::caller();
        if let Some(task) = world::task() {
            return self.wait_in_task(&task, guard, None, at).0;
        }
        let wait = |guard| {
            let guard = self.inner.wait(guard);
            (guard.unwrap_or_else(PoisonError::into_inner), ())
        };
        guard.wait_real(at, wait).0
    }

    /// Waits as long as `condition` is true.
    #[track_caller]
    pub fn wait_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        while condition(&mut guard) {
            guard = self.wait(guard);
        }
        guard
    }

    /// Releases the mutex and waits for a notification, at most for so long; whether the time was
    /// over.
    #[track_caller]
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        let at = Location::caller();
        if let Some(task) = world::task() {
            return self.wait_in_task(&task, guard, Some(limit), at);
        }
        guard.wait_real(at, |guard| {
            let waited = self.inner.wait_timeout(guard, limit);
            let (guard, result) = waited.unwrap_or_else(PoisonError::into_inner);
            (guard, result.timed_out())
        })
    }

    /// Waits as long as `condition` is true, at most for so long; whether it is true still.
    #[track_caller]
    pub fn wait_timeout_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        limit: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> (MutexGuard<'a, T>, bool) {
        // A time that no clock reaches is no limit.
        let end = Instant::now().checked_add(limit);
        while condition(&mut guard) {
            guard = match end.map(|end| end.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => return (guard, true),
                Some(left) => self.wait_timeout(guard, left).0,
                None => self.wait(guard),
            };
        }
        (guard, false)
    }

    /// Wakes one thread that waits.
    #[track_caller]
    pub fn notify_one(&self) {
        match world::task() {
            None => self.inner.notify_one(),
            Some(task) => {
                task.pause(Point::here("notify one", ""));
                task.wake_one(self.key());
            }
        }
    }

    /// Wakes all threads that wait.
    #[track_caller]
    pub fn notify_all(&self) {
        match world::task() {
            None => self.inner.notify_all(),
            Some(task) => {
                task.pause(Point::here("notify all", ""));
                task.wake_all(self.key());
            }
        }
    }

    fn key(&self) -> Key {
        Key::Condvar(std::ptr::from_ref(self).addr())
    }

    #[cold]
    fn wait_in_task<'a, T>(
        &self,
        task: &Task,
        guard: MutexGuard<'a, T>,
        limit: Option<Duration>,
        at: &'static Location<'static>,
    ) -> (MutexGuard<'a, T>, bool) {
        let point = Point::of("wait", guard.rank(), at);
        let until = limit.and_then(|limit| task.deadline(limit));
        let wait = || task.block_loosely(self.key(), until, point) == Woken::TimedOut;
        guard.wait_in_task(task, at, wait)
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Condvar")
    }
}
