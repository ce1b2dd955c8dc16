//! Threads that panic at random places, and the threads that wait for them.

use super::{alone, on_both_cores};
use cenote_sim::panic_somewhere;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// How the words of a panic begin that a seed wants.
const WANTED: &str = "a panic that the seed wants";

/// Keeps panics quiet that are wanted.
fn hush() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let words = info.payload().downcast_ref::<String>();
            if !words.is_some_and(|words| words.starts_with(WANTED)) {
                loud(info);
            }
        }));
    });
}

/// The first and the number of seeds, `FIRST-COUNT` in `CENOTE_PANICS` for more of them.
fn seeds() -> std::ops::Range<u64> {
    let wanted = std::env::var("CENOTE_PANICS").ok();
    let numbers = wanted.as_deref().and_then(|wanted| wanted.split_once('-'));
    let numbers = numbers.and_then(|(a, b)| Some((a.parse().ok()?, b.parse::<u64>().ok()?)));
    let (first, count) = numbers.unwrap_or((1, 60));
    first..first + count
}

/// A panic of the syncing thread left callers waiting whose tasks it had taken from the queue. A
/// panic of a worker left all callers waiting for its writes, and later those whose work no worker
/// took any more. An import waited forever, with the devices open.
#[test]
fn nobody_waits_for_a_thread_that_panicked() {
    let _alone = alone();
    hush();
    let came = AtomicU64::new(0);
    let seeds = seeds();
    let failed = on_both_cores(seeds.clone(), |seed| match panic_somewhere(seed) {
        Ok(has_panicked) => {
            came.fetch_add(u64::from(has_panicked), Ordering::Relaxed);
            None
        }
        Err(error) => Some(format!("{error:#}")),
    });
    for (seed, words) in &failed {
        eprintln!("seed {seed}: {words}");
    }
    let (came, count) = (came.into_inner(), seeds.end - seeds.start);
    eprintln!("{came} of {count} seeds panicked");
    assert_eq!(failed.len(), 0, "of {count}");
    assert!(
        came * 2 > count || count < 10,
        "only {came} of {count} panicked"
    );
}
