//! Reading ahead of a walk in order.
//!
//! What a block's children point to is known when the block is read, and lies anywhere. A window
//! of children ahead of the walk is sorted by address, cut into groups, and offered to the
//! cache's workers. They only fill the cache: errors meet the walk when it comes there, and a
//! group for which the workers have no room is not read ahead.

use super::visit::Visit;
use cenote_base::Bookmark;
use cenote_cache::{BlockCache, Retention};
use cenote_io::ObjsetKeys;
use cenote_ondisk::BlockPointer;
use std::sync::Arc;

/// Blocks that one worker reads at a time.
const GROUP: usize = 8;

/// Reads blocks into the cache, on other threads. One alone is left to its reader.
pub(crate) fn read(
    cache: &Arc<BlockCache>,
    keys: Option<&Arc<ObjsetKeys>>,
    retention: Retention,
    mut visits: Vec<Visit>,
) {
    visits.retain(|visit| !visit.pointer.is_embedded() && !cache.has(&visit.pointer));
    if visits.len() < 2 {
        return;
    }
    visits.sort_by_key(Visit::disk_order);
    for group in visits.chunks(GROUP) {
        let place = |visit: &Visit| (visit.pointer, visit.bookmark);
        let blocks: Vec<(BlockPointer, Bookmark)> = group.iter().map(place).collect();
        let (shared, keys) = (Arc::clone(cache), keys.cloned());
        let job = move || {
            shared.fetch(&blocks, keys.as_deref(), retention);
        };
        if cache.workers().offer(job).is_err() {
            return;
        }
    }
}
