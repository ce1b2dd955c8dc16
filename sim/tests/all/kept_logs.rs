//! Checkpoints beside intent logs that wait for their replay.

use super::on_both_cores;
use cenote_sim::keep_logs;
use std::sync::atomic::{AtomicU64, Ordering};

/// A pool was imported after a crash without mounting its datasets, and got a checkpoint. A rewind
/// to that discarded the logs: 9 of 10 files promised by `fsync` were lost.
#[test]
fn a_checkpoint_keeps_logs_that_wait_for_their_replay() {
    let waited = AtomicU64::new(0);
    let failed = on_both_cores(1..41, |seed| match keep_logs(seed) {
        Ok(waits) => {
            waited.fetch_add(u64::from(waits), Ordering::Relaxed);
            None
        }
        Err(error) => Some(format!("{error:#}")),
    });
    assert_eq!(failed, []);
    assert!(waited.into_inner() > 10, "too few logs waited");
}
