//! What datasets must know about the pool and cannot read from its metadata alone.

use std::collections::BTreeMap;

/// The space of the pool's devices by class, in deflated bytes (format/1d.8, format/3a).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpaceFacts {
    /// The normal class's usable space, less that of vdevs that take no new allocations.
    pub normal: u64,
    /// Allocated in the special class.
    pub special_allocated: u64,
    /// Allocated in the dedup class.
    pub dedup_allocated: u64,
    /// The log metaslabs embedded in normal vdevs.
    pub embedded_log: u64,
    /// Held by the checkpoint.
    pub checkpoint: u64,
    /// Freed, and to be used again only after later transaction groups.
    pub deferred: u64,
}

/// The ratio by which a vdev's allocated sectors count, by top-level vdev: 512 for mirrors and
/// single disks (format/3a, `used`).
pub type DeflateRatios = BTreeMap<u64, u64>;

/// What the pool layer says when it opens the datasets.
#[derive(Clone, Debug, Default)]
pub struct PoolFacts {
    /// The pool's name, which is its root dataset's.
    pub name: String,
    /// The pool's version: 1 to 28, or 5000.
    pub version: u64,
    /// The space of its devices.
    pub space: SpaceFacts,
    /// How its vdevs count allocated space.
    pub deflate_ratios: DeflateRatios,
}
