//! Rate limits: requests or bytes per second, with bursts of one second.
//!
//! The token bucket in its smallest form: one number, the time at which the bucket would be full
//! again. Each use moves it ahead, and passes at once as long as it is less than a second ahead of
//! now. No thread has to fill anything, and no lock is needed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;

/// A bucket. Times are nanoseconds since the server was started.
#[derive(Debug, Default)]
pub(crate) struct Pace(AtomicU64);

impl Pace {
    /// Takes `amount` if it can be had now; else how long it would take.
    pub fn try_take(&self, now: u64, amount: u64, per_second: u64) -> Result<(), Duration> {
        let cost = cost(amount, per_second);
        let take = |full: u64| {
            let after = full.max(now).saturating_add(cost);
            (after - now <= SECOND.max(cost)).then_some(after)
        };
        match self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
        {
            Ok(_) => Ok(()),
            Err(full) => {
                let after = full.max(now).saturating_add(cost);
                Err(Duration::from_nanos(
                    (after - now).saturating_sub(SECOND.max(cost)),
                ))
            }
        }
    }

    /// Takes `amount` in any case; how long to wait before it is used.
    pub fn take(&self, now: u64, amount: u64, per_second: u64) -> Duration {
        let cost = cost(amount, per_second);
        let add = |full: u64| Some(full.max(now).saturating_add(cost));
        let before = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        let after = before
            .unwrap_or_else(|full| full)
            .max(now)
            .saturating_add(cost);
        Duration::from_nanos((after - now).saturating_sub(SECOND))
    }

    /// Whether nothing has been taken that is not made up for.
    pub fn is_full(&self, now: u64) -> bool {
        self.0.load(Ordering::Relaxed) <= now
    }
}

fn cost(amount: u64, per_second: u64) -> u64 {
    let cost = u128::from(amount) * u128::from(SECOND) / u128::from(per_second.max(1));
    // An hour is longer than any client waits.
    u64::try_from(cost).unwrap_or(u64::MAX).min(3600 * SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_a_second_passes_and_then_the_rate() {
        let pace = Pace::default();
        let now = 5 * SECOND;
        for _ in 0..10 {
            assert_eq!(pace.try_take(now, 1, 10), Ok(()));
        }
        assert_eq!(pace.try_take(now, 1, 10), Err(Duration::from_millis(100)));
        assert_eq!(pace.try_take(now + SECOND / 10, 1, 10), Ok(()));
        assert!(!pace.is_full(now + SECOND));
        assert!(pace.is_full(now + 2 * SECOND));
    }

    #[test]
    fn bytes_wait_in_turn() {
        let pace = Pace::default();
        assert_eq!(pace.take(0, 1000, 1000), Duration::ZERO);
        assert_eq!(pace.take(0, 500, 1000), Duration::from_millis(500));
        assert_eq!(pace.take(0, 500, 1000), Duration::from_secs(1));
        assert_eq!(pace.take(10 * SECOND, 500, 1000), Duration::ZERO);
    }

    #[test]
    fn one_request_passes_however_low_the_rate() {
        let pace = Pace::default();
        assert_eq!(pace.try_take(0, 5000, 1000), Ok(()));
        assert!(pace.try_take(0, 1, 1000).is_err());
        assert!(pace.take(0, u64::MAX, 1) <= Duration::from_secs(7200));
    }
}
