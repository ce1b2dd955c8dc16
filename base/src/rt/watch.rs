//! One thread that watches whether another one is blocked.
//!
//! A server is quickest if the thread that receives requests also answers those that are likely to
//! be quick. But a request that is slow after all would hold up all that come after it. So while
//! this *leader* works, another thread of the server is its *watcher*: it looks once in a period,
//! and if the leader has been at the same request for a whole one, other threads continue to
//! receive. How they do that is the server's business; noticing it is the same for all, and here.
//!
//! A leader that gets no requests needs no watcher. So after some quiet periods the watcher sleeps,
//! and the leader wakes it with its next request. A request costs the leader two changes of
//! atomics, and a look at a flag that is rarely changed.
//!
//! Invariants: a watcher sleeps only while [`Watch::is_unwatched`]. A leader that finds that calls
//! [`Watch::wake`] under the lock of the server's threads before it carries out its request.

use super::condvar::Condvar;
use super::mutex::MutexGuard;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How long a leader may be at one request before it counts as blocked.
pub const PERIOD: Duration = Duration::from_millis(2);
/// Periods without a request after which the watcher sleeps until the next one.
pub const QUIET_PERIODS: u32 = 8;

/// What leaders did, for the thread that watches them.
#[derive(Debug)]
pub struct Watch {
    /// Requests that leaders began, and those that they ended.
    steps: AtomicU64,
    /// The request that the leader is carrying out, by the step that began it; 0 for none.
    working: AtomicU64,
    /// There is no watcher, or it sleeps.
    is_unwatched: AtomicBool,
    watcher: Condvar,
}

impl Default for Watch {
    fn default() -> Self {
        Self::new()
    }
}

/// The leader is carrying out a request while this lives.
#[derive(Debug)]
pub struct AtWork<'a>(&'a Watch, u64);

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        let order = Ordering::SeqCst;
        // If another thread leads by now, the number is that one's: leave it.
        let _ = self.0.working.compare_exchange(self.1, 0, order, order);
        self.0.steps.fetch_add(1, order);
    }
}

/// What a watcher knows from its last look.
#[derive(Debug)]
pub struct View {
    seen: u64,
    quiet: u32,
}

impl View {
    /// Notes steps that the watcher saw in another way.
    pub fn move_to(&mut self, steps: u64) {
        (self.seen, self.quiet) = (steps, 0);
    }
}

/// What a look showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// So many beginnings and ends of requests since the last one.
    Steps(u64),
    /// The leader is at the same request as a period ago.
    Blocked,
    /// There was no request.
    Quiet,
}

impl Watch {
    /// Without a leader and a watcher.
    pub const fn new() -> Self {
        Self {
            steps: AtomicU64::new(0),
            working: AtomicU64::new(0),
            is_unwatched: AtomicBool::new(true),
            watcher: Condvar::new(),
        }
    }

    /// Another thread leads, which is at no request.
    pub fn change_leader(&self) {
        self.working.store(0, Ordering::SeqCst);
    }

    /// The leader has received a request.
    pub fn at_work(&self) -> AtWork<'_> {
        let number = self.steps.fetch_add(1, Ordering::SeqCst) + 1;
        self.working.store(number, Ordering::SeqCst);
        AtWork(self, number)
    }

    /// Whether the leader should wake a watcher.
    pub fn is_unwatched(&self) -> bool {
        self.is_unwatched.load(Ordering::SeqCst)
    }

    /// Wakes the watcher, if there is one; the caller has the lock under which it sleeps. The
    /// leader asks for no watcher again until one has slept or left.
    pub fn wake(&self) {
        self.is_unwatched.store(false, Ordering::SeqCst);
        self.watcher.notify_one();
    }

    /// Lets the watcher look whether it is still wanted.
    pub fn notify(&self) {
        self.watcher.notify_one();
    }

    /// How many requests began and ended.
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::SeqCst)
    }

    /// The calling thread begins to watch.
    pub fn begin(&self) -> View {
        self.is_unwatched.store(false, Ordering::SeqCst);
        View {
            seen: self.steps(),
            quiet: 0,
        }
    }

    /// The watcher leaves.
    pub fn leave(&self) {
        self.is_unwatched.store(true, Ordering::SeqCst);
    }

    /// Looks after a period, or earlier if the watcher is notified. After quiet periods it sleeps
    /// until the leader gets a request, or the watcher is no longer wanted.
    pub fn look<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        view: &mut View,
        is_wanted: impl Fn(&T) -> bool,
    ) -> (MutexGuard<'a, T>, Look) {
        let (mut guard, is_timeout) = self.watcher.wait_timeout(guard, PERIOD);
        let steps = self.steps();
        if steps != view.seen {
            let made = steps.wrapping_sub(view.seen);
            view.move_to(steps);
            return (guard, Look::Steps(made));
        }
        if !is_timeout {
            return (guard, Look::Quiet);
        }
        if self.working.load(Ordering::SeqCst) != 0 {
            return (guard, Look::Blocked);
        }
        view.quiet += 1;
        if view.quiet >= QUIET_PERIODS {
            view.quiet = 0;
            self.is_unwatched.store(true, Ordering::SeqCst);
            while is_wanted(&guard) && self.steps() == view.seen {
                guard = self.watcher.wait(guard);
            }
            self.is_unwatched.store(false, Ordering::SeqCst);
        }
        (guard, Look::Quiet)
    }
}
