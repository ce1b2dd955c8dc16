//! When a device made too many errors: the properties `io_n`, `checksum_n`, `slow_io_n` and the
//! times beside them.
//!
//! A device may have N errors within T seconds. Its counters are sampled from time to time; their
//! growth since the oldest sample within T counts. A disk that makes an error a month is never
//! given up for it, and one that makes ten in a minute is.

use cenote_base::Guid;
use cenote_dsl::{Stored, property::StoredProperties};
use cenote_ondisk::VdevConfig;
use cenote_pool::Pool;
use std::collections::VecDeque;
use std::time::Duration;

/// The default limit of errors, and its seconds (vdevprops(7)).
const COUNT: u64 = 10;
const SECONDS: u64 = 600;
/// The seconds for slow requests, which nothing follows from unless their number is set.
const SLOW_SECONDS: u64 = 30;
/// Looks that are remembered: of older ones every second is forgotten.
const LOOKS_MAX: usize = 128;

/// Errors of a device: failed reads and writes, wrong checksums, slow requests.
pub(super) type Errors = [u64; 3];

/// A number of errors within a time; `None` if nothing follows from any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit {
    count: Option<u64>,
    within: Duration,
}

/// The limits for [`Errors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits([Limit; 3]);

/// What a device is found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It fails.
    Faulted,
    /// It works badly.
    Degraded,
}

impl Limits {
    /// Those of a leaf: what is set on it, on its top-level vdev, or on the root.
    pub(super) fn of(pool: &Pool, leaf: Guid) -> Self {
        let root = pool.vdev_tree();
        let has = |top: &&VdevConfig| top.leaves().any(|vdev| vdev.guid == leaf);
        let top = root.children.iter().find(has);
        let own = root.leaves().find(|vdev| vdev.guid == leaf);
        let tables = [
            own.and_then(|own| own.leaf_zap),
            top.and_then(|top| top.top_zap),
            root.root_zap,
        ];
        // What cannot be read now says nothing.
        let sets = tables.into_iter().flatten();
        let sets = sets.filter_map(|table| pool.dsl().vdev_properties(table).ok());
        Self::from_sets(&sets.collect::<Vec<_>>())
    }

    fn from_sets(sets: &[StoredProperties]) -> Self {
        let stored = |name: &str| {
            sets.iter().find_map(|set| match set.get(name) {
                Some(Stored::Number(number)) => Some(*number),
                _ => None,
            })
        };
        let limit = |count: &str, time: &str, default: Option<u64>, seconds: u64| Limit {
            // As -1, "none" is more than any device can do.
            count: stored(count).or(default).filter(|count| *count > 0),
            within: Duration::from_secs(stored(time).unwrap_or(seconds)),
        };
        Self([
            limit("io_n", "io_t", Some(COUNT), SECONDS),
            limit("checksum_n", "checksum_t", Some(COUNT), SECONDS),
            limit("slow_io_n", "slow_io_t", None, SLOW_SECONDS),
        ])
    }
}

/// The errors of one device over time.
#[derive(Debug, Default)]
pub(super) struct Record {
    looks: VecDeque<(Duration, Errors)>,
}

impl Record {
    /// Adds a look; whether there were more errors than at the last.
    pub(super) fn add(&mut self, now: Duration, errors: Errors) -> bool {
        let last = self.looks.back().map_or([0; 3], |(_, errors)| *errors);
        if errors.iter().zip(last).any(|(now, then)| *now < then) {
            // They were cleared.
            self.looks.clear();
        }
        let has_more = errors.iter().zip(last).any(|(now, then)| *now > then);
        if self.looks.is_empty() || has_more {
            self.looks.push_back((now, errors));
        }
        if self.looks.len() > LOOKS_MAX {
            let mut index = 0;
            self.looks.retain(|_| {
                index += 1;
                index % 2 == 1 || index > LOOKS_MAX / 2
            });
        }
        has_more
    }

    /// What follows from the errors so far.
    pub(super) fn judge(&self, now: Duration, limits: &Limits) -> Option<Verdict> {
        let exceeds = |kind: usize| {
            let limit = limits.0[kind];
            let since = now.saturating_sub(limit.within);
            let all = self.looks.back().map_or(0, |(_, errors)| errors[kind]);
            // The last sample before that time has the errors of then.
            let before = self.looks.iter().rev().find(|(at, _)| *at < since);
            let before = before.map_or(0, |(_, errors)| errors[kind]);
            limit.count.is_some_and(|count| all - before >= count)
        };
        match () {
            () if exceeds(0) => Some(Verdict::Faulted),
            () if exceeds(1) || exceeds(2) => Some(Verdict::Degraded),
            () => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_in_quick_succession_count() {
        let limits = Limits::from_sets(&[]);
        let at = Duration::from_secs;
        let mut slowly = Record::default();
        for month in 1..40 {
            slowly.add(at(month * 2_000_000), [month, 0, 0]);
            assert_eq!(slowly.judge(at(month * 2_000_000), &limits), None);
        }
        let mut quickly = Record::default();
        quickly.add(at(100), [9, 0, 1000]);
        assert_eq!(
            quickly.judge(at(100), &limits),
            None,
            "slow ones do not count"
        );
        assert!(quickly.add(at(101), [10, 0, 1000]));
        assert_eq!(quickly.judge(at(101), &limits), Some(Verdict::Faulted));
        quickly.add(at(102), [0, 0, 0]);
        assert_eq!(quickly.judge(at(102), &limits), None, "cleared");
        quickly.add(at(103), [0, 10, 0]);
        assert_eq!(quickly.judge(at(103), &limits), Some(Verdict::Degraded));
    }
}
