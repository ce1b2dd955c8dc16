//! How background work yields a device to requests that callers wait for.
//!
//! The queue alone does not do it: a device that answers one large request of a scrub after the
//! other is busy all the time, and each of a user's small ones waits for one of them. So while
//! users' requests come, the background pauses after each of its requests, in proportion to how
//! long the request took. Its share of the device's time is thus bounded, however fast the device
//! is, and it never starves. Without users it runs at full speed.

use cenote_base::rt::{Mutex, MutexGuard, ranks};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// So long after a user's request a device counts as used.
const USED: Duration = Duration::from_millis(50);
/// Of a used device's time the background takes one part in so many.
const PARTS: u32 = 5;
/// The longest that one request is put off, on a device of whatever slowness.
const DELAY_MAX: Duration = Duration::from_secs(1);

/// What is remembered of one device. Times are those of the environment's clock.
#[derive(Debug, Default)]
pub(crate) struct Courtesy {
    /// When a user's request came last, in nanoseconds; 0 for never.
    used: AtomicU64,
    background: Mutex<Background, ranks::VdevCourtesy>,
}

#[derive(Debug, Default)]
struct Background {
    /// How long its last request took.
    took: Duration,
    /// When the next may begin.
    next: Duration,
}

impl Courtesy {
    fn background(&self) -> MutexGuard<'_, Background> {
        self.background.lock()
    }

    /// Notes a request that a caller waits for.
    pub fn note_user(&self, now: Duration) {
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        self.used.store(now.max(1), Ordering::Relaxed);
    }

    /// How long a request of the background is to wait. Those that come together take turns.
    pub fn delay(&self, now: Duration) -> Duration {
        let used = self.used.load(Ordering::Relaxed);
        let is_used = used != 0 && now.saturating_sub(Duration::from_nanos(used)) < USED;
        if !is_used {
            return Duration::ZERO;
        }
        let mut background = self.background();
        let begin = background.next.clamp(now, now.saturating_add(DELAY_MAX));
        background.next = begin.saturating_add(background.took.saturating_mul(PARTS));
        begin.saturating_sub(now)
    }

    /// A request of the background is done.
    pub fn note_background(&self, took: Duration) {
        self.background().took = took;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn the_background_takes_its_part_of_a_used_device_and_all_of_an_unused_one() {
        let courtesy = Courtesy::default();
        courtesy.note_background(ms(2));
        assert_eq!(courtesy.delay(ms(100)), ms(0), "the device is unused");
        courtesy.note_user(ms(100));
        let delays = [101, 101, 101, 125].map(|now| courtesy.delay(ms(now)));
        // One begins at once, the others 10 ms after the one before.
        assert_eq!(delays, [ms(0), ms(10), ms(20), ms(6)]);
        courtesy.note_user(ms(200));
        assert_eq!(courtesy.delay(ms(249)), ms(0));
        assert_eq!(courtesy.delay(ms(249)), ms(10));
        assert_eq!(courtesy.delay(ms(250)), ms(0), "the last user was long ago");
    }

    #[test]
    fn no_request_is_put_off_for_ever() {
        let courtesy = Courtesy::default();
        courtesy.note_background(Duration::from_secs(40));
        courtesy.note_user(ms(10));
        let delays = [10, 10, 10].map(|now| courtesy.delay(ms(now)));
        assert_eq!(delays, [ms(0), DELAY_MAX, DELAY_MAX]);
    }
}
