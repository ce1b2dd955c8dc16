//! Keeping to a rate: a sender waits until what was sent before has had its time.

use cenote_base::rt::{Mutex, ranks};
use std::time::Duration;

/// A limit in bytes a second.
#[derive(Debug)]
pub(super) struct Pace {
    bytes_per_second: Option<u64>,
    /// When everything that was let through so far has had its time, by the monotonic clock.
    free_at: Mutex<Duration, ranks::StorePace>,
}

impl Pace {
    pub(super) fn new(bytes_per_second: Option<u64>) -> Self {
        Self {
            bytes_per_second: bytes_per_second.filter(|rate| *rate > 0),
            free_at: Mutex::default(),
        }
    }

    /// How long the caller waits before sending `bytes` at the time `now`.
    pub(super) fn reserve(&self, now: Duration, bytes: u64) -> Duration {
        let Some(rate) = self.bytes_per_second.filter(|_| bytes > 0) else {
            return Duration::ZERO;
        };
        let mut free_at = self.free_at.lock();
        let start = now.max(*free_at);
        let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
        let took = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        *free_at = start.saturating_add(took);
        start.saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_of_bytes_takes_a_second() {
        let pace = Pace::new(Some(1000));
        let now = Duration::from_secs(50);
        assert_eq!(pace.reserve(now, 500), Duration::ZERO);
        assert_eq!(pace.reserve(now, 1000), Duration::from_millis(500));
        assert_eq!(pace.reserve(now, 1), Duration::from_millis(1500));
        assert_eq!(
            pace.reserve(now, 0),
            Duration::ZERO,
            "nothing waits for nothing"
        );
        let later = Duration::from_secs(60);
        assert_eq!(pace.reserve(later, 1), Duration::ZERO);
        assert_eq!(Pace::new(None).reserve(now, u64::MAX), Duration::ZERO);
    }
}
