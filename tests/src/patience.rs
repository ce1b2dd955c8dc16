//! Waiting for what happens by itself, for as long as a slow machine may take.

use anyhow::{Result, ensure};
use std::thread;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const PERIOD: Duration = Duration::from_millis(50);

/// Polls until the condition holds.
///
/// # Errors
/// If `is_so` fails, or after a minute; the error says `what` never came.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    while !is_so()? {
        ensure!(begun.elapsed() < LIMIT, "never {what}");
        thread::sleep(PERIOD);
    }
    Ok(())
}
