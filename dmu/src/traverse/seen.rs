//! Which blocks that lead on a walk has met.
//!
//! Lowest blocks (those that point to data, and blocks of dnodes) and higher ones are remembered
//! apart, so many of each; the latest lowest ones push out the earlier. A tree of true blocks is
//! never refused for it. One in which blocks come again is refused at the first repetition, unless
//! it has more blocks between the two than are remembered: its walk may take up to 1024 times as
//! long as reading all devices, and no longer, for the higher blocks of which there can be that
//! many span more than any device has.

use super::visit::Visit;
use std::collections::HashSet;

/// Higher blocks that are remembered: each spans at least 1024 lowest ones, of 4 KiB in blocks.
const HIGH_MAX: usize = 1 << 18;
/// Lowest blocks that are remembered.
const LOW_MAX: usize = 1 << 18;

/// The first addresses of blocks.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    high: HashSet<(u64, u64)>,
    low: HashSet<(u64, u64)>,
}

impl Seen {
    /// Notes a block that leads on; false if it was met before.
    pub(crate) fn note(&mut self, visit: &Visit) -> bool {
        let (set, most) = match visit.bookmark.level.0 {
            0 | 1 => (&mut self.low, LOW_MAX),
            _ => (&mut self.high, HIGH_MAX),
        };
        if set.len() >= most {
            set.clear();
        }
        // Whatever else a pointer says: it leads to its first address.
        set.insert(visit.disk_order())
    }
}
