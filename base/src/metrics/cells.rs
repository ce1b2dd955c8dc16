//! Cells of eight bytes, for what few threads count at once.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number of events or bytes that only grows, in one word.
///
/// Threads that add to it at the same time share its cache line: where that happens for each
/// block, a [`Counter`](super::Counter) is the better choice.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds `amount`.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// The sum.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Adds `amount`.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// Takes `amount` away that was added before.
    pub fn subtract(&self, amount: u64) {
        self.0.fetch_sub(amount, Ordering::Relaxed);
    }

    /// The number now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_falls_and_a_count_does_not() {
        let (count, gauge) = (Count::default(), Gauge::default());
        count.add(3);
        gauge.add(3);
        gauge.subtract(2);
        assert_eq!((count.get(), gauge.get()), (3, 1));
    }
}
