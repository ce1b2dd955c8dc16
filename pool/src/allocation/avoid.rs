//! Metaslabs whose allocated space is copied to a device, without knowing its blocks.
//!
//! The copier must not overwrite newer allocations. So the allocator avoids the metaslab as long as
//! there is room in others. If there is none it allocates there all the same; then the copy is not
//! reliable, and is repeated.

use super::Space;
use super::top::Avoided;
use cenote_base::VdevId;
use std::ops::Range;

impl Space {
    /// Leaves a metaslab alone from now on, instead of the one before; `None` for none. To be
    /// relied on for groups that begin after this.
    pub fn avoid(&self, vdev: VdevId, index: Option<usize>) {
        if let Some(top) = self.top(vdev) {
            let is_used = false;
            top.lock().avoided = index.map(|index| Avoided { index, is_used });
        }
    }

    /// Whether the metaslab was allocated from since the last call; also true if it is not being
    /// avoided.
    pub fn take_avoided_used(&self, vdev: VdevId) -> bool {
        let Some(top) = self.top(vdev) else {
            return true;
        };
        let mut top = top.lock();
        let avoided = top.avoided.as_mut();
        avoided.is_none_or(|avoided| std::mem::take(&mut avoided.is_used))
    }

    /// What of a metaslab may hold something: all that is not free. `None` if its map cannot be
    /// read.
    pub fn allocated_ranges(&self, vdev: VdevId, index: usize) -> Option<Vec<Range<u64>>> {
        let shared = self.top(vdev)?;
        let top = self.lock_loaded(&shared, index)?;
        let metaslab = &top.metaslabs[index];
        let mut ranges = Vec::new();
        let mut start = metaslab.range.start;
        for free in metaslab.free.as_ref()?.iter() {
            if start < free.start {
                ranges.push(start..free.start);
            }
            start = free.end;
        }
        if start < metaslab.range.end {
            ranges.push(start..metaslab.range.end);
        }
        Some(ranges)
    }
}
