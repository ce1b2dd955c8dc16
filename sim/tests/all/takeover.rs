//! Disks of the kernel whose daemons are killed.

use super::on_both_cores;
use cenote_base::rt::World;
use cenote_sim::take_over;
use std::sync::atomic::{AtomicU64, Ordering};

fn lost(seeds: std::ops::Range<u64>, forgets: bool) -> (Vec<(u64, String)>, u64) {
    let replayed = AtomicU64::new(0);
    let lost = on_both_cores(seeds, |seed| {
        match take_over(&World::simulated(seed), seed, forgets) {
            Ok(disk) => {
                replayed.fetch_add(disk.replayed, Ordering::Relaxed);
                None
            }
            Err(error) => Some(format!("{error:#}")),
        }
    });
    (lost, replayed.into_inner())
}

/// To the file system on such a disk the power never failed.
#[test]
fn a_disk_that_is_taken_over_has_the_newest_answered_writes() {
    let (lost, replayed) = lost(1..25, false);
    assert_eq!(lost, []);
    assert!(replayed > 200, "too few writes were replayed: {replayed}");
}

/// A simulation that finds nothing where something must be lost proves nothing.
#[test]
fn without_the_journal_something_is_lost() {
    let (lost, _) = lost(1..9, true);
    assert!(!lost.is_empty());
}
