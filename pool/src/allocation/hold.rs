//! Free space that is held for a moment, while the devices work on it.
//!
//! A trim or initialization takes one free range at a time, so that no block is allocated there,
//! and releases it again. An allocation that finds no space waits for the release.

use super::Space;
use cenote_base::VdevId;
use cenote_base::rt::{Condvar, Mutex, ranks};
use std::ops::Range;
use std::time::Duration;

/// How long one wait for held space lasts.
const WAIT: Duration = Duration::from_secs(1);

/// The ranges that are held.
#[derive(Debug, Default)]
pub(super) struct Holds {
    count: Mutex<usize, ranks::SpaceHolds>,
    ended: Condvar,
}

impl Holds {
    /// Waits until a range was given back; false if none is held.
    pub fn wait(&self) -> bool {
        let count = self.count.lock();
        if *count == 0 {
            return false;
        }
        let waited = self.ended.wait_timeout(count, WAIT);
        drop(waited);
        true
    }
}

/// A free range of one metaslab that is not allocated while this lives.
#[derive(Debug)]
pub(crate) struct HeldRange<'a> {
    space: &'a Space,
    vdev: VdevId,
    index: usize,
    /// Bytes of the vdev's space.
    pub range: Range<u64>,
}

impl Drop for HeldRange<'_> {
    fn drop(&mut self) {
        if let Some(top) = self.space.top(self.vdev) {
            let released = top.lock().metaslabs[self.index].release_hold(self.range.clone());
            if let Err(conflict) = released {
                self.space.note_conflict(self.vdev, conflict);
            }
        }
        *self.space.range_holds.count.lock() -= 1;
        self.space.range_holds.ended.notify_all();
    }
}

impl Space {
    /// Holds the first free range behind `from` of a vdev's metaslab, at most `length` bytes of
    /// it in whole sectors; `None` if there is none more, or the metaslab is damaged.
    pub fn hold_range(
        &self,
        vdev: VdevId,
        index: usize,
        from: u64,
        length: u64,
    ) -> Option<HeldRange<'_>> {
        let shared = self.top(vdev)?;
        let mut top = self.lock_loaded(&shared, index)?;
        let sector = 1 << top.ashift;
        let length = (length & !(sector - 1)).max(sector);
        let range = top.metaslabs[index].hold(from, length)?;
        *self.range_holds.count.lock() += 1;
        Some(HeldRange {
            space: self,
            vdev,
            index,
            range,
        })
    }

    /// The metaslab of a vdev that a range lies in.
    pub fn metaslab_of(&self, vdev: VdevId, range: &Range<u64>) -> Option<usize> {
        self.top(vdev)?.lock().index_of(range).ok()
    }

    /// The metaslabs of a vdev with the bytes that are free in each.
    pub fn metaslabs_of(&self, vdev: VdevId) -> Vec<(Range<u64>, u64)> {
        let Some(top) = self.top(vdev) else {
            return Vec::new();
        };
        let top = top.lock();
        let metaslabs = top.metaslabs.iter();
        metaslabs
            .map(|metaslab| (metaslab.range.clone(), metaslab.available()))
            .collect()
    }
}
