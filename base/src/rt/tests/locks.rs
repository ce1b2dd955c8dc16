//! Mutexes, locks for readers, condition variables, cells.

use super::{everywhere, panic_of};
use crate::rt::{Condvar, Instant, Mutex, OnceLock, RwLock, Unranked, scope, sleep};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Longer than any machine is busy.
const LONG: Duration = Duration::from_secs(600);

#[test]
fn a_mutex_lets_in_one_at_a_time() {
    everywhere(|| {
        let count = Mutex::<u64, Unranked>::new(0);
        scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let mut count = count.lock();
                        let before = *count;
                        crate::rt::yield_now();
                        *count = before + 1;
                    }
                });
            }
        });
        assert_eq!(count.into_inner(), 30);
    });
}

#[test]
fn a_try_does_not_wait() {
    everywhere(|| {
        let mutex = Mutex::<(), Unranked>::default();
        let lock = RwLock::<(), Unranked>::default();
        let (guard, reader) = (mutex.lock(), lock.read());
        scope(|scope| {
            scope.spawn(|| {
                assert!(mutex.try_lock().is_none() && lock.try_write().is_none());
                assert!(lock.try_read().is_some());
            });
        });
        drop((guard, reader));
        assert!(mutex.try_lock().is_some() && lock.try_write().is_some());
    });
}

#[test]
fn readers_share_and_a_writer_does_not() {
    everywhere(|| {
        let pair = RwLock::<(u64, u64), Unranked>::default();
        scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let mut pair = pair.write();
                        pair.0 += 1;
                        crate::rt::yield_now();
                        pair.1 += 1;
                    }
                });
                scope.spawn(|| {
                    for _ in 0..10 {
                        let pair = pair.read();
                        assert_eq!(pair.0, pair.1, "a reader saw half of a change");
                    }
                });
            }
        });
        assert_eq!(pair.into_inner(), (20, 20));
    });
}

/// Panics with a lock made the next user panic, too, or each user say that it does not mind.
#[test]
fn a_panic_does_not_spoil_a_lock() {
    everywhere(|| {
        let mutex = Mutex::<u64, Unranked>::new(7);
        let lock = RwLock::<u64, Unranked>::new(8);
        let panicked = panic_of(|| {
            let _guards = (mutex.lock(), lock.write());
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert_eq!(panicked.as_deref(), Some("on purpose"));
        assert_eq!((*mutex.lock(), *lock.read()), (7, 8));
        assert!(mutex.try_lock().is_some() && lock.try_write().is_some());
        assert_eq!((mutex.into_inner(), lock.into_inner()), (7, 8));
    });
}

#[test]
fn a_wait_ends_with_the_condition() {
    everywhere(|| {
        let (turn, changed) = (Mutex::<u64, Unranked>::new(0), Condvar::new());
        scope(|scope| {
            for own in 0..3 {
                let (turn, changed) = (&turn, &changed);
                scope.spawn(move || {
                    let mut turn = changed.wait_while(turn.lock(), |turn| *turn != own);
                    *turn += 1;
                    drop(turn);
                    changed.notify_all();
                });
            }
        });
        assert_eq!(*turn.lock(), 3);
    });
}

#[test]
fn a_wait_ends_with_its_time() {
    everywhere(|| {
        let (mutex, never) = (Mutex::<bool, Unranked>::new(false), Condvar::new());
        let start = Instant::now();
        let limit = Duration::from_millis(3);
        let (guard, is_over) = never.wait_timeout_while(mutex.lock(), limit, |done| !*done);
        assert!(is_over && start.elapsed() >= limit);
        drop(guard);
        let (guard, is_over) = never.wait_timeout_while(mutex.lock(), Duration::MAX, |_| false);
        assert!(!is_over && !*guard, "no need to wait");
    });
}

#[test]
fn one_notification_wakes_one() {
    everywhere(|| {
        let (tokens, given) = (Mutex::<u64, Unranked>::new(0), Condvar::new());
        scope(|scope| {
            let takers = [(); 2].map(|()| {
                scope.spawn(|| {
                    let (mut tokens, is_over) =
                        given.wait_timeout_while(tokens.lock(), LONG, |tokens| *tokens == 0);
                    assert!(!is_over);
                    *tokens -= 1;
                })
            });
            for _ in 0..2 {
                *tokens.lock() += 1;
                given.notify_one();
                sleep(Duration::from_micros(50));
            }
            for taker in takers {
                taker.join().expect("a token for each");
            }
        });
        assert_eq!(*tokens.lock(), 0);
    });
}

#[test]
fn a_cell_is_made_once() {
    everywhere(|| {
        let (cell, made) = (OnceLock::new(), AtomicUsize::new(0));
        let make = || {
            sleep(Duration::from_micros(100));
            made.fetch_add(1, Ordering::Relaxed)
        };
        scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| assert_eq!(*cell.get_or_init(make), 0));
            }
        });
        assert_eq!((cell.set(9), cell.get()), (Err(9), Some(&0)));
    });
}
