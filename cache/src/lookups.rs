//! How lookups ended.
//!
//! A lookup is counted once, whatever parts of the cache it goes through: a *hit* when something of
//! the block was in memory, a *wait* when another reader was bringing it, a *miss* when it had to
//! be read from a device. Reads ahead are counted apart from lookups that a caller waits for: a
//! stream that is read ahead well has demand hits only, and the device reads are prefetch misses.

use cenote_base::metrics::Counter;
use cenote_io::{IoClass, IoContext};
use cenote_ondisk::BlockPointer;

/// How a lookup ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// In memory.
    Hit,
    /// Another reader brought it.
    Wait,
    /// It was read from a device.
    Miss,
}

/// One lookup.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lookup {
    /// Whether it was for metadata.
    pub(crate) is_metadata: bool,
    /// Whether it was ahead of need.
    pub(crate) is_ahead: bool,
    /// How it ended.
    pub(crate) outcome: Outcome,
}

/// Lookups of one kind by their outcome.
#[derive(Debug, Default)]
pub struct Outcomes([Counter; 3]);

impl Outcomes {
    /// How many had this outcome.
    pub fn get(&self, outcome: Outcome) -> u64 {
        self.0[outcome as usize].get()
    }
}

/// Lookups of one cache.
#[derive(Debug, Default)]
pub struct Lookups {
    /// Lookups that a caller waits for: data, metadata.
    pub demand: [Outcomes; 2],
    /// What is read ahead: data, metadata.
    pub prefetch: [Outcomes; 2],
}

/// Whether a block is metadata: an indirect block, or of an object that is no file and no volume.
pub(crate) fn is_metadata(pointer: &BlockPointer) -> bool {
    pointer.level().0 > 0 || pointer.object_type().is_metadata()
}

/// Whether reads of this kind are ahead of need.
pub(crate) fn is_ahead(io: &IoContext) -> bool {
    matches!(io.class, IoClass::AsyncRead | IoClass::Scrub)
}

impl Lookups {
    /// Counts one.
    pub(crate) fn note(&self, lookup: Lookup) {
        let kinds = match lookup.is_ahead {
            true => &self.prefetch,
            false => &self.demand,
        };
        kinds[usize::from(lookup.is_metadata)].0[lookup.outcome as usize].add(1);
    }
}
