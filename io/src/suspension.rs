//! Waiting for devices that are gone, as the property `failmode` says.
//!
//! A group that cannot be written would be lost with everything that programs believe to have
//! written. So the thread that writes it waits where it failed. Once the administrator has fixed
//! the devices and resumes the pool, the thread tries again. Nothing else needs to know: a pool
//! whose syncing thread waits takes no changes, and cached data can be read.

use cenote_base::rt::{Condvar, Mutex, MutexGuard, ranks};
use cenote_vdev::Patience;
use std::fmt::{self, Display};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// What becomes of work that devices do not do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailMode {
    /// It fails, and the pool takes no more changes until it is opened again.
    #[default]
    Stop,
    /// It waits (`failmode=wait`).
    Wait,
    /// Writing a group waits, everything else fails (`failmode=continue`).
    Continue,
}

#[derive(Debug, Default)]
struct State {
    mode: FailMode,
    /// For good: waiting threads give up.
    is_over: bool,
    cause: Option<Arc<str>>,
}

type Listener = Box<dyn Fn(&str) + Send + Sync>;

/// An attempt at something, which fails in vain if the devices came back meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt(u64);

/// Where a pool's work waits for its devices.
#[derive(Default)]
pub struct Suspension {
    state: Mutex<State, ranks::Suspension>,
    /// How often work was resumed; changes under the lock.
    resumed: AtomicU64,
    /// Lets threads that need not wait check without the lock.
    is_waiting: AtomicBool,
    changed: Condvar,
    listener: OnceLock<Listener>,
}

impl Suspension {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Sets how failed device I/O is handled, also for threads that wait now.
    pub fn set_mode(&self, mode: FailMode) {
        self.lock().mode = mode;
        self.changed.notify_all();
    }

    /// Sets the listener that is called, with the cause, when work begins to wait or ends for good.
    /// Only the first call counts.
    pub fn set_listener(&self, listener: impl Fn(&str) + Send + Sync + 'static) {
        let _ = self.listener.set(Box::new(listener));
    }

    /// Reports to the listener why work ended for good, unless it knows already that work waits.
    pub fn tell_of_end(&self, cause: &str) {
        let state = self.lock();
        let is_news = state.cause.is_none() && !state.is_over;
        drop(state);
        if let Some(listener) = self.listener.get().filter(|_| is_news) {
            listener(cause);
        }
    }

    /// What becomes of work that devices do not do.
    pub fn mode(&self) -> FailMode {
        self.lock().mode
    }

    /// What the pool's work waits for, if it does.
    pub fn cause(&self) -> Option<Arc<str>> {
        if !self.is_waiting.load(Ordering::Acquire) {
            return None;
        }
        self.lock().cause.clone()
    }

    /// Why a change is refused now: work waits, and new work is not to.
    pub fn refusal(&self) -> Option<Arc<str>> {
        let cause = self.cause()?;
        (self.mode() == FailMode::Continue).then_some(cause)
    }

    /// Begins an attempt at something that may have to be tried again.
    pub fn attempt(&self) -> Attempt {
        Attempt(self.resumed.load(Ordering::Acquire))
    }

    /// Whether anything waits for devices at all.
    pub fn may_wait(&self) -> bool {
        let state = self.lock();
        state.mode != FailMode::Stop && !state.is_over
    }

    /// Waits, after an attempt to write failed, for the devices; `true` to try again.
    pub fn wait(&self, attempt: Attempt, cause: &dyn Display) -> bool {
        self.wait_if(attempt, cause, |mode| mode != FailMode::Stop)
    }

    /// As [`wait`](Self::wait), after an attempt to read failed because devices are gone.
    pub fn wait_to_read(&self, attempt: Attempt, cause: &dyn Display, patience: Patience) -> bool {
        self.wait_if(attempt, cause, |mode| match (mode, patience) {
            (FailMode::Stop, _) | (_, Patience::Never) => false,
            (FailMode::Wait, _) | (_, Patience::Always) => true,
            (FailMode::Continue, Patience::Usual) => false,
        })
    }

    fn wait_if(
        &self,
        attempt: Attempt,
        cause: &dyn Display,
        is_patient: impl Fn(FailMode) -> bool,
    ) -> bool {
        let mut state = self.lock();
        let waits = |state: &State| is_patient(state.mode) && !state.is_over;
        if attempt == self.attempt() && waits(&state) && state.cause.is_none() {
            let cause: Arc<str> = cause.to_string().into();
            state.cause = Some(Arc::clone(&cause));
            self.is_waiting.store(true, Ordering::Release);
            drop(state);
            if let Some(listener) = self.listener.get() {
                listener(&cause);
            }
            state = self.lock();
        }
        while attempt == self.attempt() && waits(&state) {
            let woken = self.changed.wait(state);
            state = woken;
        }
        waits(&state)
    }

    /// Lets everything that waits try again.
    pub fn resume(&self) {
        let mut state = self.lock();
        self.resumed.fetch_add(1, Ordering::Release);
        state.cause = None;
        self.is_waiting.store(false, Ordering::Release);
        self.changed.notify_all();
    }

    /// Ends all waiting, now and from now on: work fails.
    pub fn end(&self) {
        let mut state = self.lock();
        state.is_over = true;
        state.cause = None;
        self.is_waiting.store(false, Ordering::Release);
        self.changed.notify_all();
    }
}

impl fmt::Debug for Suspension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Suspension")
            .field("state", &*state)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn work_waits_until_it_is_resumed_or_over() {
        let suspension = Arc::new(Suspension::default());
        let attempt = suspension.attempt();
        assert!(!suspension.wait(attempt, &"work does not wait by default"));
        assert_eq!(suspension.cause(), None);

        suspension.set_mode(FailMode::Wait);
        let (told, causes) = channel();
        suspension.set_listener(move |cause| told.send(cause.to_owned()).expect("test listens"));
        let waiting = |what: &'static str| {
            let suspension = Arc::clone(&suspension);
            std::thread::spawn(move || suspension.wait(attempt, &what))
        };
        let first = waiting("the disk is gone");
        assert_eq!(causes.recv().expect("told"), "the disk is gone");
        assert_eq!(suspension.cause().as_deref(), Some("the disk is gone"));
        assert_eq!(suspension.refusal(), None);
        let second = waiting("the disk is still gone");
        suspension.resume();
        assert!(first.join().expect("no panic") && second.join().expect("no panic"));
        assert!(suspension.cause().is_none() && causes.try_recv().is_err());
        assert!(
            suspension.wait(attempt, &"old news"),
            "an attempt before devices came back is made again"
        );

        suspension.set_mode(FailMode::Continue);
        let attempt = suspension.attempt();
        assert!(!suspension.wait_to_read(attempt, &"reads fail", Patience::Usual));
        let insisting = {
            let suspension = Arc::clone(&suspension);
            std::thread::spawn(move || {
                let cause = "but not the syncing thread's";
                suspension.wait_to_read(attempt, &cause, Patience::Always)
            })
        };
        causes.recv().expect("told");
        assert!(suspension.refusal().is_some());
        suspension.end();
        assert!(!insisting.join().expect("no panic"));
        assert!(!suspension.wait(attempt, &"it is over"));
    }
}
