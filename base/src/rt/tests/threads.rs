//! Threads: started, joined, parked, and their clocks.

use super::{everywhere, panic_of};
use crate::rt::{self, Instant, scope, spawn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[test]
fn a_thread_gives_its_result() {
    everywhere(|| {
        let thread = spawn("adds", || 1 + 1).expect("a thread");
        assert_eq!(thread.thread().name(), Some("adds"));
        assert_eq!(thread.join().expect("no panic"), 2);
        let fails = spawn("fails", || -> u8 {
            std::panic::resume_unwind(Box::new("so"))
        });
        let payload = fails.expect("a thread").join().expect_err("it panicked");
        assert_eq!(super::text(&*payload), "so");
    });
}

#[test]
fn a_scope_waits_for_its_threads() {
    everywhere(|| {
        let mut values = [0; 3];
        let sum = scope(|scope| {
            for (number, value) in (1..).zip(&mut values) {
                scope.spawn(move || {
                    rt::sleep(Duration::from_micros(number));
                    *value = number;
                });
            }
            let named = scope.spawn_named("named", || 5).expect("a thread");
            assert_eq!(named.thread().name(), Some("named"));
            named.join().expect("no panic")
        });
        assert_eq!((values, sum), ([1, 2, 3], 5));
    });
}

#[test]
fn a_panic_that_nobody_joined_fails_the_scope() {
    everywhere(|| {
        let fail = || std::panic::resume_unwind(Box::new("so"));
        let panicked = panic_of(|| scope(|scope| drop(scope.spawn(fail))));
        assert_eq!(panicked.as_deref(), Some("a scoped thread panicked"));
        let joined = panic_of(|| scope(|scope| drop(scope.spawn(fail).join())));
        assert_eq!(joined, None);
        // The threads end before the scope does, even if its own work panics.
        let ended = AtomicBool::new(false);
        let panicked = panic_of(|| {
            scope(|scope| {
                scope.spawn(|| {
                    rt::sleep(Duration::from_micros(100));
                    ended.store(true, Ordering::Relaxed);
                });
                std::panic::resume_unwind(Box::new("in the scope"))
            })
        });
        assert_eq!(panicked.as_deref(), Some("in the scope"));
        assert!(ended.load(Ordering::Relaxed));
    });
}

#[test]
fn who_is_parked_is_woken() {
    everywhere(|| {
        let is_ready = Arc::new(AtomicBool::new(false));
        let own = Arc::clone(&is_ready);
        let parked = spawn("parked", move || {
            while !own.load(Ordering::Acquire) {
                rt::park();
            }
        });
        let parked = parked.expect("a thread");
        is_ready.store(true, Ordering::Release);
        parked.thread().unpark();
        parked.join().expect("no panic");
        // One that comes first counts for the next.
        rt::current().unpark();
        rt::park();
        rt::park_timeout(Duration::from_micros(10));
    });
}

#[test]
fn clocks_go_forward() {
    everywhere(|| {
        let (start, wall, uptime) = (Instant::now(), rt::wall_clock(), rt::uptime());
        rt::sleep(Duration::from_millis(2));
        assert!(start.elapsed() >= Duration::from_millis(2));
        assert!(rt::uptime() - uptime >= Duration::from_millis(2));
        assert!(rt::wall_clock() > Duration::from_secs(1_600_000_000) && wall.as_secs() > 0);
        assert!(
            start - Duration::from_secs(3600) < start,
            "before the start of the machine"
        );
        assert_eq!(start - Instant::now(), Duration::ZERO);
        assert_eq!(start.checked_add(Duration::MAX), None);
        assert!(rt::available_parallelism().expect("known").get() >= 1);
    });
}

#[test]
fn random_bytes_differ() {
    everywhere(|| {
        let mut bytes = [[0; 19]; 2];
        for buffer in &mut bytes {
            rt::fill_random(buffer).expect("random bytes");
        }
        assert!(bytes[0] != bytes[1] && bytes[0][10..] != [0; 9]);
    });
}
