//! The gate that requests pass, so that what is behind it can be exchanged between two of them.
//!
//! A request that comes while the gate is closed waits in front of it. Passing an open gate is one
//! addition; the lock is taken only to close it, or when it is closed.

use cenote_base::rt::{Condvar, Instant, Mutex, MutexGuard, ranks};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Set while the gate is closed; below it, how many requests are inside.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// The gate.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: AtomicUsize,
    lock: Mutex<(), ranks::MountGate>,
    changed: Condvar,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock()
    }

    /// A request comes, and waits while the gate is closed.
    pub fn enter(&self) {
        while self.state.fetch_add(1, Ordering::AcqRel) & CLOSED != 0 {
            self.leave();
            let mut waiting = self.lock();
            while self.state.load(Ordering::Acquire) & CLOSED != 0 {
                let woken = self.changed.wait(waiting);
                waiting = woken;
            }
        }
    }

    /// A request is served.
    pub fn leave(&self) {
        let before = self.state.fetch_sub(1, Ordering::AcqRel);
        assert!(before & !CLOSED > 0, "a request that leaves was inside");
        if before == CLOSED | 1 {
            let _held = self.lock();
            self.changed.notify_all();
        }
    }

    /// Closes the gate and waits for those inside; false if some are still there after `patience`,
    /// or it is closed already: then it is as it was.
    pub fn close(&self, patience: Duration) -> bool {
        if self.state.fetch_or(CLOSED, Ordering::AcqRel) & CLOSED != 0 {
            return false;
        }
        let begun = Instant::now();
        let mut waiting = self.lock();
        while self.state.load(Ordering::Acquire) != CLOSED {
            let Some(left) = patience.checked_sub(begun.elapsed()) else {
                drop(waiting);
                self.open();
                return false;
            };
            let woken = self.changed.wait_timeout(waiting, left);
            waiting = woken.0;
        }
        true
    }

    /// Opens it again.
    pub fn open(&self) {
        let _held = self.lock();
        self.state.fetch_and(!CLOSED, Ordering::AcqRel);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn nobody_is_inside_while_it_is_closed() {
        let gate = Arc::new(Gate::default());
        let is_over = Arc::new(AtomicBool::new(false));
        let inside = Arc::new(AtomicUsize::new(0));
        let visitors: Vec<_> = (0..4)
            .map(|_| {
                let (gate, over) = (Arc::clone(&gate), Arc::clone(&is_over));
                let inside = Arc::clone(&inside);
                std::thread::spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        gate.enter();
                        inside.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        gate.leave();
                    }
                })
            })
            .collect();
        for _ in 0..200 {
            assert!(gate.close(LONG));
            assert_eq!(inside.load(Ordering::SeqCst), 0);
            assert!(!gate.close(SHORT), "once at a time");
            gate.open();
        }
        is_over.store(true, Ordering::Relaxed);
        for visitor in visitors {
            visitor.join().expect("no panic");
        }
    }

    #[test]
    fn who_stays_inside_keeps_it_open() {
        let gate = Gate::default();
        gate.enter();
        assert!(!gate.close(SHORT));
        gate.enter();
        gate.leave();
        gate.leave();
        assert!(gate.close(SHORT));
    }
}
