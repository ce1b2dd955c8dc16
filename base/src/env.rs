//! What the outside world provides: time and randomness.
//!
//! Devices come through `device::Opener` for the same reason. The core never calls
//! `SystemTime::now` or a random generator itself, so that a simulated world can decide both.

use crate::rt;
use std::time::Duration;

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

/// The world of the calling thread: of a running system, or a simulated one.
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
        rt::wall_clock()
    }

    fn monotonic(&self) -> Duration {
        rt::uptime()
    }

    fn sleep(&self, duration: Duration) {
        rt::sleep(duration);
    }

    fn fill_random(&self, buffer: &mut [u8]) -> std::io::Result<()> {
        rt::fill_random(buffer)
    }
}
