//! A clock that advances when a thread waits.

use super::Random;
use cenote_base::Env;
use cenote_base::rt::{Mutex, MutexGuard, ranks};
use std::time::Duration;

/// Seconds between 1970 and the beginning of the simulated world.
const START: Duration = Duration::from_secs(1_800_000_000);

#[derive(Debug)]
struct State {
    now: Duration,
    random: Random,
}

/// Time and randomness from a seed.
#[derive(Debug)]
pub struct SimulatedEnv {
    state: Mutex<State, ranks::SimulatedEnv>,
}

impl SimulatedEnv {
    /// The world of `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            state: Mutex::new(State {
                now: Duration::from_secs(1000),
                random: Random::new(seed),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Env for SimulatedEnv {
    fn wall_clock(&self) -> Duration {
        START + self.state().now
    }

    fn monotonic(&self) -> Duration {
        self.state().now
    }

    fn sleep(&self, duration: Duration) {
        self.state().now += duration;
    }

    fn fill_random(&self, buffer: &mut [u8]) -> std::io::Result<()> {
        self.state().random.fill(buffer);
        Ok(())
    }
}
