//! What only a simulated world can show.

use super::{everywhere, panic_of};
use crate::rt::{self, Condvar, Mutex, Rank, RankInfo, Unranked, World, scope, spawn};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A trace in memory.
#[derive(Clone, Default)]
struct Sink(Arc<std::sync::Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn traced(seed: u64, work: impl FnOnce()) -> String {
    let sink = Sink::default();
    World::simulated(seed).trace_to(sink.clone()).run(work);
    let bytes = sink.0.lock().expect("no panic").clone();
    String::from_utf8(bytes).expect("text")
}

/// All that there is: locks, waits, messages, sleep, chance.
fn bustle() {
    let (count, changed) = (Mutex::<u64, Unranked>::new(0), Condvar::new());
    let (sender, receiver) = rt::sync_channel(1);
    scope(|scope| {
        for number in 0..3 {
            let (sender, count, changed) = (sender.clone(), &count, &changed);
            scope.spawn(move || {
                let mut byte = [0];
                rt::fill_random(&mut byte).expect("random bytes");
                rt::sleep(Duration::from_micros(u64::from(byte[0])));
                rt::trace!("{number} slept {} us", byte[0]);
                *count.lock() += 1;
                changed.notify_all();
                sender.send(number).expect("a receiver");
            });
        }
        drop(sender);
        drop(changed.wait_while(count.lock(), |count| *count < 3));
        receiver.iter().count()
    });
}

#[test]
fn a_seed_determines_everything() {
    let first = traced(7, bustle);
    assert!(
        first.contains(" slept ") && first.lines().count() > 50,
        "{first}"
    );
    for _ in 0..3 {
        assert_eq!(traced(7, bustle), first);
    }
    assert_ne!(traced(8, bustle), first);
}

/// Debug and release builds, loaded and idle machines: the trace is part of the contract, as old
/// seeds are kept with the faults that they found. After a change of the scheduler, run this with
/// the new sum.
#[test]
fn a_trace_is_the_same_in_all_builds() {
    // The lines without places in the source, which change with each edit.
    let trace = traced(7, bustle);
    let lines = trace
        .lines()
        .map(|line| line.split(" at ").next().unwrap_or_default());
    let sum = lines
        .flat_map(str::bytes)
        .fold(0xcbf2_9ce4_8422_2325, |sum: u64, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    assert_eq!(format!("{sum:016x}"), TRACE_SUM, "{trace}");
}

const TRACE_SUM: &str = "f9945cdb017f88ad";

/// A program with a lost wake-up: it looks at the flag before it has the lock, so the notification
/// can come in between.
fn sleepy() {
    let (is_ready, lock, changed) = (
        AtomicU64::new(0),
        Mutex::<(), Unranked>::new(()),
        Condvar::new(),
    );
    scope(|scope| {
        scope.spawn(|| {
            is_ready.store(1, Ordering::Release);
            changed.notify_one();
        });
        if is_ready.load(Ordering::Acquire) == 0 {
            drop(changed.wait(lock.lock()));
        }
    });
}

#[test]
fn a_lost_wake_up_is_found() {
    let find = |seed: &u64| {
        let world = World::simulated(*seed).spurious_wakeups(false);
        panic_of(|| world.run(sleepy)).is_some()
    };
    let seeds: Vec<_> = (0..100).filter(find).collect();
    assert!(!seeds.is_empty() && seeds.len() < 100, "{seeds:?}");
    let again: Vec<_> = seeds.iter().copied().filter(find).collect();
    assert_eq!(seeds, again, "a seed that failed fails again");
    let world = World::simulated(seeds[0]).spurious_wakeups(false);
    let report = panic_of(|| world.run(sleepy)).expect("it fails");
    let seed = format!("simulation with seed {}: deadlock", seeds[0]);
    for words in [
        seed.as_str(),
        "#0 main: wait Unranked at base/src/rt/tests/simulation.rs:",
    ] {
        assert!(report.contains(words), "{words:?} is not in {report}");
    }
}

/// Ranks that say nothing, so that the check of the order does not come first.
enum Left {}
enum Right {}

impl Rank for Left {
    const INFO: &'static RankInfo = &RankInfo::new("Left", "tests", "nothing", None);
}

impl Rank for Right {
    const INFO: &'static RankInfo = &RankInfo::new("Right", "tests", "nothing", None);
}

/// Two threads that take two locks in different orders.
fn crossing() {
    let (left, right) = (Mutex::<(), Left>::new(()), Mutex::<(), Right>::new(()));
    scope(|scope| {
        scope
            .spawn_named("first", || drop((left.lock(), right.lock())))
            .expect("a thread");
        scope
            .spawn_named("second", || drop((right.lock(), left.lock())))
            .expect("a thread");
    });
}

#[test]
fn a_deadlock_names_all_tasks() {
    let report = (0..100).find_map(|seed| panic_of(|| World::simulated(seed).run(crossing)));
    let report = report.expect("one of 100 seeds finds it");
    for words in [
        "#1 first: lock Right at base/src/rt/tests/simulation.rs:",
        "(held by #2 second); holds by lock Left at",
        "#2 second: lock Left at",
        "(held by #1 first); holds by lock Right at",
        "#0 main: join scope at",
    ] {
        assert!(report.contains(words), "{words:?} is not in {report}");
    }
}

#[test]
fn the_clock_jumps() {
    let start = Instant::now();
    World::simulated(1).run(|| {
        let begun = rt::Instant::now();
        rt::sleep(Duration::from_secs(365 * 86400));
        let late = begun
            .elapsed()
            .saturating_sub(Duration::from_secs(365 * 86400));
        assert!(late < Duration::from_millis(1), "{late:?} late");
    });
    assert!(
        start.elapsed() < Duration::from_secs(3600),
        "the test did not really wait a year"
    );
}

/// A busy loop on the clock lets other tasks run and so ends.
#[test]
fn busy_loops_end() {
    World::simulated(2).run(|| {
        let end = rt::Instant::now() + Duration::from_millis(1);
        while rt::Instant::now() < end {}
        let sleeper = spawn("sleeps", || rt::sleep(Duration::from_millis(1))).expect("a thread");
        while !sleeper.is_finished() {
            rt::yield_now();
        }
    });
}

#[test]
fn waits_end_for_no_reason() {
    let spurious = |seed: &u64| {
        World::simulated(*seed).run(|| {
            let mutex = Mutex::<(), Unranked>::new(());
            let minute = Duration::from_secs(60);
            !Condvar::new().wait_timeout(mutex.lock(), minute).1
        })
    };
    let count = (0..1000).filter(spurious).count();
    assert!((2..100).contains(&count), "{count} of 1000");
}

/// The run lasts as long as any of its tasks.
#[test]
fn a_run_waits_for_all_tasks() {
    let ended = Arc::new(AtomicU64::new(0));
    let own = Arc::clone(&ended);
    World::simulated(4).run(move || {
        let last = move || {
            rt::sleep(Duration::from_secs(60));
            own.fetch_add(1, Ordering::Relaxed);
        };
        spawn("first", || drop(spawn("last", last).expect("a thread"))).expect("a thread");
    });
    assert_eq!(ended.load(Ordering::Relaxed), 1);
}

#[test]
fn a_panic_comes_out_of_the_run() {
    let panicked = panic_of(|| {
        World::simulated(5).run(|| {
            spawn("waits", || rt::park()).expect("a thread");
            std::panic::resume_unwind(Box::new("so"))
        })
    });
    assert_eq!(panicked.as_deref(), Some("so"));
}

#[test]
fn arguments_of_traces_are_evaluated_where_there_is_one() {
    everywhere(|| {
        let mut count = 0;
        rt::trace!("{}", {
            count += 1;
            count
        });
        assert_eq!(count == 1, rt::is_simulated());
    });
}

/// A thread that wakes up now and then hides that another one waits for ever.
#[test]
fn a_world_with_an_end_reports_who_waits() {
    let never = || {
        let lock = Mutex::<(), Unranked>::new(());
        let changed = Condvar::new();
        scope(|scope| {
            scope.spawn(|| {
                loop {
                    rt::sleep(Duration::from_secs(1));
                }
            });
            drop(changed.wait_while(lock.lock(), |()| true));
        });
    };
    let world = World::simulated(1).time_limit(Duration::from_secs(100));
    let said = panic_of(|| world.run(never)).expect("it does not end");
    assert!(
        said.contains("its time is over") && said.contains("wait"),
        "{said}"
    );
}

fn is_worker(name: &str) -> bool {
    name == "worker"
}

/// One thread panics, at a place that the number decides, and only one that may.
#[test]
fn a_wanted_panic_comes_once() {
    for points in 0..6 {
        let world = World::simulated(points).panic_at(points, is_worker);
        let (ended, locked) = world.run(|| {
            let count = Arc::new(Mutex::<u64, Unranked>::new(0));
            let start = |name: &str| {
                let own = Arc::clone(&count);
                let work = move || (0..4).for_each(|_| *own.lock() += 1);
                spawn(name, work).expect("a thread")
            };
            let threads = [start("worker"), start("other")];
            let ended = threads.map(|thread| thread.join().is_ok());
            (ended, *count.lock())
        });
        let panics = points < 4;
        assert_eq!(ended, [!panics, true]);
        assert_eq!(locked, if panics { 4 + points } else { 8 });
        assert_eq!(world.has_panicked(), panics);
    }
}
