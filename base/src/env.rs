//! What the outside world provides: time and randomness.
//!
//! Devices come through `device::Opener` for the same reason. The core never calls
//! `SystemTime::now` or a random generator itself, so that a simulated world can decide both.

use rustix::time::{ClockId, clock_gettime};
use std::io::Read;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The world as a pool sees it.
pub trait Env: std::fmt::Debug + Send + Sync {
    /// Time since the Unix epoch, UTC.
    fn wall_clock(&self) -> Duration;

    /// Time since an arbitrary start that never goes back, while the system sleeps too.
    fn monotonic(&self) -> Duration;

    /// Waits for `duration`.
    fn sleep(&self, duration: Duration);

    /// Fills `buffer` with random bytes fit for keys.
    fn fill_random(&self, buffer: &mut [u8]) -> std::io::Result<()>;
}

/// The world of a running system.
#[derive(Debug, Default)]
pub struct RealEnv;

impl RealEnv {
    /// The environment.
    pub fn new() -> Self {
        Self
    }
}

impl Env for RealEnv {
    fn wall_clock(&self) -> Duration {
        // A clock set before 1970 reads as the epoch: no caller can do better with it.
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
    }

    fn monotonic(&self) -> Duration {
        let now = clock_gettime(ClockId::Boottime);
        // It counts from the system's start on, so neither part is negative.
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or_default())
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }

    fn fill_random(&self, buffer: &mut [u8]) -> std::io::Result<()> {
        std::fs::File::open("/dev/urandom")?.read_exact(buffer)
    }
}
