//! Sizes of log blocks and records.

use cenote_ondisk::intent_log::block::{BLOCK_SIZE_MIN, CHAIN_SIZE};

/// The largest log block (format/2e 2).
pub(super) const BLOCK_SIZE_MAX: usize = 128 << 10;
/// The longest record that fits into a block.
pub(super) const RECORD_SIZE_MAX: usize = BLOCK_SIZE_MAX - CHAIN_SIZE;

/// The size of a block for so many bytes of records: a multiple of 4 KiB.
pub(super) fn block_size_for(records: usize) -> usize {
    let size = records.saturating_add(CHAIN_SIZE);
    size.next_multiple_of(BLOCK_SIZE_MIN).min(BLOCK_SIZE_MAX)
}
