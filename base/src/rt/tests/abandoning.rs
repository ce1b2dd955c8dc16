//! Power cuts: all other tasks stop where they are.

use super::panic_of;
use crate::rt::{self, Condvar, Mutex, Unranked, World, abandon_others, scope, spawn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts how many of it were dropped.
struct Token(Arc<AtomicU64>);

impl Drop for Token {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

type Lock = Mutex<u64, Unranked>;

#[test]
fn everything_is_freed() {
    for seed in 0..40 {
        let dropped = Arc::new(AtomicU64::new(0));
        World::simulated(seed).run(|| {
            let (lock, never) = (Arc::new(Lock::new(0)), Arc::new(Condvar::new()));
            for task in 0..5 {
                let token = Token(Arc::clone(&dropped));
                let (lock, never) = (Arc::clone(&lock), Arc::clone(&never));
                let work = move || {
                    let _token = token;
                    match task {
                        0 => rt::sleep(Duration::MAX),
                        1 => drop(never.wait_while(lock.lock(), |_| true)),
                        2 => rt::park_timeout(Duration::from_secs(5)),
                        3 => rt::channel::<()>().1.recv().map_or((), |()| ()),
                        _ => loop {
                            *lock.lock() += 1;
                        },
                    }
                };
                spawn(format!("task {task}"), work).expect("a thread");
            }
            rt::sleep(Duration::from_micros(50));
            abandon_others();
            assert!(
                lock.try_lock().is_some(),
                "locks of those that are gone are free"
            );
            assert_eq!(Arc::strong_count(&lock), 1);
            // The world still works.
            let after = spawn("after", || 3)
                .expect("a thread")
                .join()
                .expect("no panic");
            assert_eq!(after, 3);
        });
        assert_eq!(dropped.load(Ordering::Relaxed), 5, "seed {seed}");
    }
}

#[test]
fn who_is_abandoned_gives_no_result() {
    World::simulated(1).run(|| {
        let thread = spawn("sleeps", || rt::sleep(Duration::MAX)).expect("a thread");
        abandon_others();
        assert!(thread.is_finished());
        assert!(thread.join().is_err());
    });
}

/// The destructor of an engine stops its threads and waits for them.
#[test]
fn destructors_may_lock_and_join() {
    struct Engine {
        state: Arc<(Lock, Condvar)>,
        thread: Option<rt::JoinHandle<()>>,
    }

    impl Drop for Engine {
        fn drop(&mut self) {
            *self.state.0.lock() = 1;
            self.state.1.notify_all();
            let thread = self.thread.take().expect("joined once");
            let _ = thread.join();
        }
    }

    fn engine() -> Engine {
        let state = Arc::new((Lock::new(0), Condvar::new()));
        let own = Arc::clone(&state);
        let work = move || drop(own.1.wait_while(own.0.lock(), |is_over| *is_over == 0));
        let thread = Some(spawn("engine", work).expect("a thread"));
        Engine { state, thread }
    }

    for seed in 0..40 {
        World::simulated(seed).run(|| {
            spawn("owner", || {
                let _engine = engine();
                rt::sleep(Duration::MAX);
            })
            .expect("a thread");
            rt::sleep(Duration::from_millis(1));
            abandon_others();
        });
    }
}

/// A destructor that waits for what the dead would have done must not stop the living.
#[test]
fn destructors_that_wait_for_ever_are_left_behind() {
    struct Stubborn(Arc<(Lock, Condvar)>, bool);

    impl Drop for Stubborn {
        fn drop(&mut self) {
            let mut count = self.0.0.lock();
            while *count == 0 {
                count = match self.1 {
                    true => self.0.1.wait(count),
                    false => self.0.1.wait_timeout(count, Duration::from_secs(1)).0,
                };
            }
        }
    }

    for is_patient in [true, false] {
        World::simulated(11).run(|| {
            let state = Arc::new((Lock::new(0), Condvar::new()));
            let stubborn = Stubborn(Arc::clone(&state), is_patient);
            let thread = spawn("stubborn", move || {
                let _stubborn = stubborn;
                rt::sleep(Duration::MAX);
            });
            rt::sleep(Duration::from_millis(1));
            abandon_others();
            assert!(thread.expect("a thread").join().is_err());
            assert_eq!(Arc::strong_count(&state), 2, "it was left behind");
        });
    }
}

/// A scope's threads borrow from it, so it outlives them even now.
#[test]
fn scopes_end_after_their_threads() {
    for seed in 0..40 {
        World::simulated(seed).run(|| {
            spawn("scope", || {
                let count = Lock::new(0);
                scope(|scope| {
                    for _ in 0..2 {
                        scope.spawn(|| {
                            loop {
                                *count.lock() += 1;
                            }
                        });
                    }
                });
            })
            .expect("a thread");
            rt::sleep(Duration::from_micros(100));
            abandon_others();
        });
    }
}

/// Panics are caught where requests are carried out; a power cut is not one of them.
#[test]
fn it_is_no_panic() {
    World::simulated(2).run(|| {
        let caught = Arc::new(AtomicU64::new(0));
        let own = Arc::clone(&caught);
        spawn("catches", move || {
            let _ = rt::catch_unwind(|| rt::sleep(Duration::MAX));
            own.fetch_add(1, Ordering::Relaxed);
        })
        .expect("a thread");
        rt::sleep(Duration::from_millis(1));
        abandon_others();
        assert_eq!(caught.load(Ordering::Relaxed), 0);
        assert!(rt::catch_unwind(|| std::panic::resume_unwind(Box::new("so"))).is_err());
    });
}

#[test]
fn the_first_task_gives_the_result() {
    let panicked = panic_of(|| {
        World::simulated(3).run(|| {
            spawn("cuts", abandon_others).expect("a thread");
            rt::sleep(Duration::MAX);
        })
    });
    let panicked = panicked.expect("no result");
    assert!(
        panicked.contains("Call abandon_others in the first task"),
        "{panicked}"
    );
}
