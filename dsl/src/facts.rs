//! What datasets must know about the pool and cannot read from its metadata alone.

use cenote_base::{BLOCK_SIZE_MAX, SECTOR_SIZE};
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
    /// What a block of 512 bytes counts for, one of 1 KiB, and so on to 16 MiB, with parity and
    /// padding.
    pub block_costs: [u64; BLOCK_SIZES],
}

/// Sizes of blocks that are powers of two.
pub const BLOCK_SIZES: usize = (BLOCK_SIZE_MAX.ilog2() - SECTOR_SIZE.ilog2() + 1) as usize;

impl SpaceFacts {
    /// What `bytes` count for that are stored in blocks of `block` bytes, one copy of them.
    pub fn cost(&self, bytes: u64, block: u64) -> u64 {
        let of_block = |size: u64| {
            let size = size.clamp(SECTOR_SIZE, BLOCK_SIZE_MAX).next_power_of_two();
            let index = size.ilog2() - SECTOR_SIZE.ilog2();
            let cost = self.block_costs.get(index as usize).copied();
            cost.unwrap_or(0).max(size)
        };
        let block = block.clamp(SECTOR_SIZE, BLOCK_SIZE_MAX);
        let whole = (bytes / block).saturating_mul(of_block(block));
        match bytes % block {
            0 => whole,
            rest => whole.saturating_add(of_block(rest)),
        }
    }
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
