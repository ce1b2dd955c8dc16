//! Room: histories of limits and writers, and faults that were found by hand.

use crate::on_both_cores;
use cenote_base::rt::World;
use cenote_sim::crowd;

/// Histories that are lived through unless `CENOTE_ROOM_SEEDS` says how many.
const SEEDS: u64 = 6;

#[test]
fn nobody_is_refused_what_fits_and_no_limit_is_exceeded() {
    let seeds = std::env::var("CENOTE_ROOM_SEEDS").ok();
    let first = std::env::var("CENOTE_ROOM_SEED").ok();
    let number = |text: Option<String>| text.and_then(|text| text.parse().ok());
    let first = number(first).unwrap_or(1);
    let seeds = first..first + number(seeds).unwrap_or(SEEDS);
    let wrong = on_both_cores(seeds, |seed| {
        let lived = crowd(&World::simulated(seed), seed);
        lived.err().map(|error| format!("{error:#}"))
    });
    assert_eq!(wrong, []);
}
