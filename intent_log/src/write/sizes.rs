//! Sizes of log blocks and records.

use cenote_base::settings;
use cenote_ondisk::intent_log::block::{BLOCK_SIZE_MIN, CHAIN_SIZE};

/// The largest log block (format/2e 2).
pub(super) const BLOCK_SIZE_MAX: usize = 128 << 10;
/// The longest record that fits into a block.
pub(super) const RECORD_SIZE_MAX: usize = BLOCK_SIZE_MAX - CHAIN_SIZE;

/// The size of a block that so many bytes of records fit into: a multiple of 4 KiB.
fn block_size_of(records: usize) -> usize {
    let size = records.saturating_add(CHAIN_SIZE);
    size.next_multiple_of(BLOCK_SIZE_MIN).min(BLOCK_SIZE_MAX)
}

/// The size of a block for so many bytes of records, the first `whole` of which are one record: as
/// large as the setting allows, or as that record needs.
pub(super) fn block_size_for(records: usize, whole: usize) -> usize {
    let most = usize::try_from(settings::ZIL_BLOCK_SIZE_MAX.get()).unwrap_or(BLOCK_SIZE_MAX);
    let most = most.next_multiple_of(BLOCK_SIZE_MIN);
    let size = block_size_of(records).min(most);
    size.max(block_size_of(whole))
}
