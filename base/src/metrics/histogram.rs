//! Histograms with buckets of powers of two.
//!
//! Bucket *n* counts values from 2^n up to but not including 2^(n+1), as OpenZFS's do: the first
//! also counts zeros, the last everything above. The number of buckets is fixed, so an event costs
//! two relaxed additions (its bucket, the sum) and no decision.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts values by their magnitude.
#[derive(Debug)]
pub struct Histogram<const BUCKETS: usize> {
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
}

/// Durations in nanoseconds, up to 137 s.
pub type DurationHistogram = Histogram<37>;

/// Sizes in bytes, up to 32 MiB.
pub type SizeHistogram = Histogram<25>;

impl<const BUCKETS: usize> Default for Histogram<BUCKETS> {
    fn default() -> Self {
        Self {
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            sum: AtomicU64::new(0),
        }
    }
}

impl<const BUCKETS: usize> Histogram<BUCKETS> {
    /// Counts one value.
    pub fn note(&self, value: u64) {
        let bucket = value.checked_ilog2().unwrap_or(0) as usize;
        self.buckets[bucket.min(BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
        if value != 0 {
            self.sum.fetch_add(value, Ordering::Relaxed);
        }
    }

    /// What was counted so far; values that come meanwhile may or may not be in it.
    pub fn distribution(&self) -> Distribution {
        let counts = self.buckets.iter();
        let counts = counts.map(|bucket| bucket.load(Ordering::Relaxed));
        Distribution {
            counts: counts.collect(),
            sum: self.sum.load(Ordering::Relaxed),
        }
    }
}

impl DurationHistogram {
    /// Counts one duration.
    pub fn note_duration(&self, took: Duration) {
        self.note(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }
}

/// A copy of a histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// How many values each bucket has; none, or one for each bucket.
    pub counts: Vec<u64>,
    /// The sum of all values.
    pub sum: u64,
}

impl Distribution {
    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds the values of another copy of a histogram of the same kind.
    pub fn add(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.sum = self.sum.saturating_add(other.sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_by_their_magnitude() {
        let histogram = SizeHistogram::default();
        for value in [0, 1, 2, 3, 4, 512, 1023, u64::MAX] {
            histogram.note(value.min(1 << 40));
        }
        let found = histogram.distribution();
        assert_eq!(found.counts.len(), 25);
        assert_eq!(found.counts[..3], [2, 2, 1]);
        assert_eq!((found.counts[9], found.counts[24]), (2, 1));
        assert_eq!((found.count(), found.sum), (8, 1545 + (1 << 40)));
        let mut twice = Distribution::default();
        twice.add(&found);
        twice.add(&found);
        assert_eq!((twice.count(), twice.sum), (16, 2 * found.sum));
    }

    #[test]
    fn durations_are_nanoseconds() {
        let histogram = DurationHistogram::default();
        histogram.note_duration(Duration::from_micros(1));
        histogram.note_duration(Duration::MAX);
        let found = histogram.distribution();
        assert_eq!((found.counts[9], found.counts[36]), (1, 1));
    }
}
