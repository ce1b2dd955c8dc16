//! A device with limited speed: to test a pool on a slow device, and to leave bandwidth for other
//! users.

use super::{Filter, FilteredRequest, RequestKind};
use cenote_base::rt::{self, Instant};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a request waits at most, at any rate: clients time out.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// What may go at once after a time without requests.
const BURST: Duration = Duration::from_millis(50);

/// Each request takes this much longer.
#[derive(Debug)]
pub struct Delay(pub Duration);

impl Filter for Delay {
    fn before(&self, _request: &FilteredRequest) {
        rt::sleep(self.0);
    }
}

/// So many bytes a second are read and written, by all clients together.
#[derive(Debug)]
pub struct Rate {
    bytes_per_second: u64,
    begin: Instant,
    /// When the next request may go, in nanoseconds since the beginning.
    next: AtomicU64,
}

impl Rate {
    /// Lets this many bytes pass in a second; none is as one.
    pub fn new(bytes_per_second: u64) -> Self {
        Self {
            bytes_per_second: bytes_per_second.max(1),
            begin: Instant::now(),
            next: AtomicU64::new(0),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// How long a request of this many bytes waits at the time `now`.
    fn wait_at(&self, now: u64, bytes: u64) -> Duration {
        let cost = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second);
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        let (burst, wait_max) = (BURST.as_nanos() as u64, WAIT_MAX.as_nanos() as u64);
        let after = |next: u64| {
            let begin = next.max(now.saturating_sub(burst));
            // What one request must not wait for, those behind it need not either.
            begin.saturating_add(cost).min(now.saturating_add(wait_max))
        };
        let order = Ordering::Relaxed;
        let before = self
            .next
            .fetch_update(order, order, |next| Some(after(next)));
        let next = after(before.unwrap_or(0));
        Duration::from_nanos(next.saturating_sub(now))
    }
}

impl Filter for Rate {
    fn before(&self, request: &FilteredRequest) {
        if let RequestKind::Read | RequestKind::Write = request.kind {
            rt::sleep(self.wait_at(self.now(), request.length));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn bytes_pass_at_the_rate_that_was_asked_for() {
        let rate = Rate::new(1 << 20);
        let now = 10 * SECOND;
        let waits: Vec<Duration> = (0..4).map(|_| rate.wait_at(now, 1 << 20)).collect();
        let burst = BURST.as_millis() as u64;
        let expected = [1, 2, 3, 4].map(|seconds| seconds * 1000 - burst);
        assert_eq!(waits, expected.map(Duration::from_millis));
        // A request that comes after all others are done only waits for itself.
        let later = rate.wait_at(now + 10 * SECOND, 1 << 20);
        assert_eq!(later, Duration::from_millis(1000 - burst));
    }

    #[test]
    fn no_request_waits_so_long_that_its_client_gives_up() {
        let rate = Rate::new(0);
        assert_eq!(rate.wait_at(0, u64::MAX), WAIT_MAX);
        assert_eq!(rate.wait_at(0, 1), WAIT_MAX);
        assert_eq!(rate.wait_at(u64::MAX, 1), Duration::ZERO);
    }
}
