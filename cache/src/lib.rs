//! The adaptive replacement cache, in front of the pipeline.
//!
//! Blocks are kept as stored (compressed, and encrypted where they are): so memory holds the most
//! of them. Decoded copies are a second, smaller cache. A block whose stored bytes are its contents
//! lives only in the first. Both are bounded in bytes, and so is what they remember about blocks
//! that they dropped. Blocks that need not stay pass through a third one, which is small.
//!
//! Pool blocks never change in place: a copy's address and birth name its contents for ever. So
//! nothing here is invalidated, with one exception: a block that is written again in its own group
//! keeps its name, and [`BlockCache::insert_written`] forgets its older state.

#![forbid(unsafe_code)]

mod arc;
mod block_cache;
mod datasets;
mod flight;
mod hash;
mod lookups;

pub use arc::{ArcFigures, BlockId, ListFigures};
pub use block_cache::{Asked, Block, BlockCache, CacheFigures, CacheLimits, ReadAhead, Retention};
pub use cenote_device::BlockBuffer;
pub use datasets::DatasetFigures;
pub use lookups::{Lookups, Outcome, Outcomes};
