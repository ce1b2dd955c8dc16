//! Work that one thread at a time does, and that anybody may ask for.
//!
//! A thread that finds nothing to do ends. If somebody asks for work in just that moment, and sees
//! that there is a thread, nobody does the work. So both questions, whether a thread is at it and
//! whether something is wanted, are answered under one lock: whoever asks notes that first, and
//! the thread ends only where nothing was noted since it took up its last round.

use cenote_base::rt::{self, JoinHandle, Mutex, MutexGuard, ranks};
use std::io;
use std::sync::Arc;

#[derive(Debug, Default)]
struct State {
    /// Somebody asked since the thread took up its last round.
    is_wanted: bool,
    /// The number of the thread that does it.
    at_work: Option<u64>,
    /// Threads that were started.
    threads: u64,
    /// There is to be no more work.
    is_over: bool,
    thread: Option<JoinHandle<()>>,
}

/// Work that one thread does.
#[derive(Debug, Default)]
pub(crate) struct Duty {
    state: Mutex<State, ranks::Duty>,
}

/// The thread that does a duty, while it does.
#[derive(Debug)]
pub(crate) struct Shift {
    duty: Arc<Duty>,
    number: u64,
}

impl Duty {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Asks for the work: the thread that is at it goes through another round, or one is started.
    ///
    /// # Errors
    /// If there is no thread to be had; then nobody does the work until it is asked for again.
    pub fn ask(
        self: &Arc<Self>,
        name: &str,
        work: impl FnOnce(&Shift) + Send + 'static,
    ) -> io::Result<()> {
        let mut state = self.state();
        if state.is_over {
            return Ok(());
        }
        state.is_wanted = true;
        if state.at_work.is_some() {
            return Ok(());
        }
        let shift = Shift {
            duty: Arc::clone(self),
            number: state.threads + 1,
        };
        let thread = rt::spawn(name, move || work(&shift))?;
        state.threads += 1;
        state.at_work = Some(state.threads);
        // The one before has left its last round.
        state.thread = Some(thread);
        Ok(())
    }

    /// Whether a thread is at it.
    pub fn is_at_work(&self) -> bool {
        self.state().at_work.is_some()
    }

    /// Whether the thread is to end.
    pub fn is_over(&self) -> bool {
        self.state().is_over
    }

    /// Ends the work, and waits for the thread.
    pub fn stop(&self) {
        let thread = {
            let mut state = self.state();
            state.is_over = true;
            state.thread.take()
        };
        if let Some(thread) = thread {
            // A thread that panicked has left everything as its last round did.
            let _ = thread.join();
        }
    }
}

impl Shift {
    /// Takes up a round if one is wanted. If not the thread's work has ended with this answer:
    /// whoever asks from now on starts another one.
    pub fn take_up(&self) -> bool {
        let mut state = self.duty.state();
        let goes_on = state.is_wanted && !state.is_over;
        match goes_on {
            true => state.is_wanted = false,
            false => state.at_work = None,
        }
        goes_on
    }
}

impl Drop for Shift {
    fn drop(&mut self) {
        let mut state = self.duty.state();
        // After a panic, or where the pool is gone.
        if state.at_work == Some(self.number) {
            state.at_work = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    /// A worker that was about to end took no notice of what was asked for in that moment, and
    /// who asked saw a worker: a resilver was "in progress" that nobody worked on.
    #[test]
    fn what_is_asked_for_at_the_last_moment_is_done() {
        let duty = Arc::new(Duty::default());
        let (begun, at_end) = mpsc::channel();
        let (go_on, wait) = mpsc::channel::<()>();
        let rounds = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&rounds);
        let work = move |shift: &Shift| {
            while shift.take_up() {
                counted.fetch_add(1, Ordering::SeqCst);
                begun.send(()).expect("somebody listens");
                wait.recv().expect("somebody says");
            }
        };
        duty.ask("first", work).expect("a thread");
        at_end.recv().expect("a round");
        // It has looked, found nothing more, and not ended yet.
        duty.ask("second", |_| panic!("there is a thread"))
            .expect("noted");
        go_on.send(()).expect("it waits");
        at_end.recv().expect("another round");
        go_on.send(()).expect("it waits");
        duty.stop();
        assert_eq!(rounds.load(Ordering::SeqCst), 2);
        assert!(!duty.is_at_work());
    }

    /// Askers and a worker that ends all the time: every request is followed by a round.
    #[test]
    fn every_request_is_followed_by_a_round() {
        let duty = Arc::new(Duty::default());
        let (wanted, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        for _ in 0..2000 {
            wanted.fetch_add(1, Ordering::SeqCst);
            let (wanted, done) = (Arc::clone(&wanted), Arc::clone(&done));
            let work = move |shift: &Shift| {
                while shift.take_up() {
                    done.store(wanted.load(Ordering::SeqCst), Ordering::SeqCst);
                }
            };
            duty.ask("work", work).expect("a thread");
        }
        let begun = Instant::now();
        while done.load(Ordering::SeqCst) < 2000 {
            assert!(begun.elapsed() < Duration::from_secs(60), "nobody works");
            std::thread::yield_now();
        }
        duty.stop();
    }

    #[test]
    fn a_worker_that_panics_is_followed_by_another() {
        let duty = Arc::new(Duty::default());
        let fails = |shift: &Shift| {
            assert!(!shift.take_up(), "as it is to be");
        };
        duty.ask("fails", fails).expect("a thread");
        let begun = Instant::now();
        while duty.is_at_work() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it is gone");
            std::thread::yield_now();
        }
        let (said, heard) = mpsc::channel();
        let works = move |shift: &Shift| {
            while shift.take_up() {
                said.send(()).expect("somebody listens");
            }
        };
        duty.ask("works", works).expect("a thread");
        heard.recv().expect("a round");
        duty.stop();
    }
}
