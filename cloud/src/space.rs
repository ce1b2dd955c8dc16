//! How much of a device is stored, and how much of that is needed.

use crate::core::Core;

/// Bytes of a device in its store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes in data objects that addresses of the device point to, at most.
    pub live: u64,
    /// Whether it is exactly so much; if not, the next full checkpoint finds out.
    pub is_live_exact: bool,
    /// Bytes of all data objects that are not removed yet.
    pub stored: u64,
    /// Bytes that the map takes in memory, about.
    pub map_memory: u64,
}

impl Core {
    pub(crate) fn space(&self) -> Space {
        let state = self.state();
        let (live, is_live_exact) = state.map.needed_bytes();
        Space {
            live,
            is_live_exact,
            stored: state.map.stored_bytes(),
            map_memory: state.map.memory(),
        }
    }
}

/// What was done with a device since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Commits.
    pub commits: u64,
    /// Checkpoints, light and full ones.
    pub checkpoints: u64,
    /// Bytes that compaction has moved.
    pub compacted: u64,
    /// Objects that were removed.
    pub deleted: u64,
}

impl Core {
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            commits: self.counters.commits.get(),
            checkpoints: self.counters.checkpoints.get(),
            compacted: self.counters.compacted.get(),
            deleted: self.counters.deleted.get(),
        }
    }
}
