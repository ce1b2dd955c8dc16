//! One thread that watches another.

use crate::rt::watch::{AtWork, Look, PERIOD, QUIET_PERIODS, Watch};
use crate::rt::{Instant, Mutex, Unranked, World, scope, sleep};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Much longer than a watcher needs.
const LONG: Duration = Duration::from_secs(10);

/// Whether the leader was found to be blocked.
type State = Mutex<bool, Unranked>;

fn begin<'a>(watch: &'a Watch, state: &State) -> AtWork<'a> {
    let work = watch.at_work();
    if watch.is_unwatched() {
        let state = state.lock();
        watch.wake();
        drop(state);
    }
    work
}

/// Watches until the leader is blocked; when that was.
fn watch_until_blocked(watch: &Watch, state: &State) -> Instant {
    let mut guard = state.lock();
    let mut view = watch.begin();
    while !*guard {
        let look;
        (guard, look) = watch.look(guard, &mut view, |is_blocked| !*is_blocked);
        *guard |= look == Look::Blocked;
    }
    watch.leave();
    Instant::now()
}

#[test]
fn a_leader_that_is_blocked_is_noticed_and_one_that_rests_is_not() {
    for seed in 0..300 {
        World::simulated(seed).run(|| {
            let (watch, state) = (Watch::new(), State::new(false));
            scope(|scope| {
                let watcher = scope.spawn(|| watch_until_blocked(&watch, &state));
                // The longest pause makes the watcher sleep.
                for periods in [0, 1, QUIET_PERIODS + 3, 0, 2] {
                    sleep(PERIOD * periods);
                    drop(begin(&watch, &state));
                    assert!(!*state.lock(), "seed {seed}: it was not blocked");
                }
                sleep(PERIOD * (QUIET_PERIODS + 3));
                let begun = Instant::now();
                let work = begin(&watch, &state);
                sleep(LONG);
                drop(work);
                let seen = watcher.join().expect("no panic") - begun;
                assert!(seen < PERIOD * 50, "seed {seed}: seen after {seen:?}");
            });
            assert!(watch.is_unwatched());
        });
    }
}

/// The request of a leader that lost the lead ends while its successor carries out another one.
#[test]
fn the_end_of_a_blocked_request_is_no_end_of_the_next_leaders() {
    let is_blocked = |watch: &Watch, state: &State| {
        let mut view = watch.begin();
        let mut guard = state.lock();
        // Some waits end early in a simulated world.
        for _ in 0..20 {
            let look;
            (guard, look) = watch.look(guard, &mut view, |_| false);
            if look == Look::Blocked {
                return true;
            }
        }
        false
    };
    World::simulated(1).run(|| {
        let (watch, state) = (Watch::new(), State::new(false));
        let first = watch.at_work();
        watch.change_leader();
        assert!(!is_blocked(&watch, &state), "the new one has no request");
        let second = watch.at_work();
        drop(first);
        assert!(is_blocked(&watch, &state));
        drop(second);
        assert!(!is_blocked(&watch, &state));
    });
}

/// A watcher that is not wanted any more leaves, although it slept.
#[test]
fn a_watcher_that_sleeps_can_be_sent_away() {
    for seed in 0..100 {
        World::simulated(seed).run(|| {
            let (watch, state) = (Watch::new(), State::new(false));
            let has_left = AtomicBool::new(false);
            scope(|scope| {
                scope.spawn(|| {
                    watch_until_blocked(&watch, &state);
                    has_left.store(true, Ordering::SeqCst);
                });
                sleep(LONG);
                assert!(!has_left.load(Ordering::SeqCst));
                *state.lock() = true;
                watch.notify();
            });
        });
    }
}
