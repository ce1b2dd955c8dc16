//! Clocks and sleep.
//!
//! Of a real world they are the system's. In a simulated one all clocks show the virtual time,
//! which begins on 15 January 2027, 08:00:00 UTC.

use super::simulation::{Key, Point, Stop};
use super::world;
use rustix::time::{ClockId, clock_gettime};
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The wall clock of a simulated world at its beginning.
const BEGINNING: Duration = Duration::from_secs(1_800_000_000);

/// What is added to the monotonic clock, so that an hour before the start is an [`Instant`], too.
const PAST: Duration = Duration::from_secs(1 << 32);

/// A moment on a clock that never goes back. Moments of different worlds cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    /// This moment.
    pub fn now() -> Self {
        let now = match world::task() {
            None => system_clock(ClockId::Monotonic),
            Some(task) => task.now(),
        };
        Self(PAST + now)
    }

    /// The time since then.
    pub fn elapsed(&self) -> Duration {
        Self::now().duration_since(*self)
    }

    /// The time from `earlier` until this moment; zero if it is later.
    pub fn duration_since(&self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// As [`Self::duration_since`].
    pub fn saturating_duration_since(&self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }

    /// The time from `earlier` until this moment; `None` if it is later.
    pub fn checked_duration_since(&self, earlier: Self) -> Option<Duration> {
        self.0.checked_sub(earlier.0)
    }

    /// The moment so much later, if there is one.
    pub fn checked_add(&self, duration: Duration) -> Option<Self> {
        self.0.checked_add(duration).map(Self)
    }

    /// The moment so much earlier, if there is one.
    pub fn checked_sub(&self, duration: Duration) -> Option<Self> {
        self.0.checked_sub(duration).map(Self)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0 + duration)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        self.0 += duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0 - duration)
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        self.0 -= duration;
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }
}

/// Time since the Unix epoch, UTC.
pub fn wall_clock() -> Duration {
    match world::task() {
        // A clock set before 1970 reads as the epoch: no caller can do better with it.
        None => SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default(),
        Some(task) => BEGINNING + task.now(),
    }
}

/// Time since an arbitrary start that never goes back and counts while the system sleeps, too.
pub fn uptime() -> Duration {
    match world::task() {
        None => system_clock(ClockId::Boottime),
        Some(task) => task.now(),
    }
}

fn system_clock(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    // It counts from the system's start on, so neither part is negative.
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or_default())
}

/// Waits for `duration`.
#[track_caller]
pub fn sleep(duration: Duration) {
    let Some(task) = world::task() else {
        return std::thread::sleep(duration);
    };
    let until = task.deadline(duration);
    task.block(Key::Time, until, Point::here("sleep", ""), Stop::Allowed);
}

/// Fills `buffer` with random bytes; in a real world they are fit for keys.
///
/// # Errors
/// As of reading `/dev/urandom`.
pub fn fill_random(buffer: &mut [u8]) -> std::io::Result<()> {
    use std::io::Read;
    if let Some(task) = world::task() {
        task.fill_random(buffer);
        return Ok(());
    }
    std::fs::File::open("/dev/urandom")?.read_exact(buffer)
}
