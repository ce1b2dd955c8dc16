//! Blocks that may have more references than one, clones and duplicates, while a group is written.
//!
//! References gained and lost are gathered until all datasets of the group are written, and then
//! applied by the tables ([`crate::clones`], [`crate::dedup`]).

use super::error::SyncError;
use super::syncer::Syncer;
use crate::clones::{self, Referrer};
use cenote_base::VdevId;
use cenote_dsl::DslError;
use cenote_dsl::write::SyncContext;
use cenote_ondisk::BlockPointer;
use cenote_ondisk::features;

/// References to apply.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Blocks that were cloned, once for each clone.
    pub gained: Vec<BlockPointer>,
    /// Blocks that something no longer refers to.
    pub lost: Vec<BlockPointer>,
}

impl Shared {
    /// Whether there is nothing to apply.
    pub(super) fn is_empty(&self) -> bool {
        self.gained.is_empty() && self.lost.is_empty()
    }
}

impl Syncer {
    /// Whether freeing a block must ask a table first.
    pub(super) fn may_be_shared(&self, pointer: &BlockPointer) -> bool {
        let is_data = pointer.level().0 == 0 && !pointer.object_type().is_metadata();
        // The first clone may be made in this very group.
        let has_clones =
            || self.dsl.features().is_active(features::BLOCK_CLONING) || self.dsl.has_cloned();
        pointer.is_dedup() || (is_data && has_clones())
    }

    /// Frees the blocks that wait for this, unless they have other references.
    pub(super) fn apply_shared(&self, context: &SyncContext<'_>) -> Result<(), SyncError> {
        let waiting = std::mem::take(&mut *self.shared());
        if !waiting.is_empty() {
            clones::apply(context, self, &waiting.gained, &waiting.lost)?;
        }
        self.dedup.apply(context, &|pointer| self.free_now(pointer))
    }
}

impl Referrer for Syncer {
    fn refer(&self, pointer: &BlockPointer) -> Result<bool, DslError> {
        self.dedup.share(pointer)
    }

    fn give_up(&self, pointer: &BlockPointer) -> Result<bool, DslError> {
        self.dedup.give_up(pointer)
    }

    fn free(&self, pointer: &BlockPointer) -> Result<(), DslError> {
        self.free_now(pointer)
    }

    fn deflated_size(&self, pointer: &BlockPointer) -> u64 {
        let of = |vdev| self.vdevs.shape().deflate_ratio(vdev).unwrap_or(512);
        let sizes = pointer
            .dvas()
            .map(|dva| (dva.asize() >> 9) * of(dva.vdev()));
        sizes.sum()
    }

    fn vdev_size(&self, vdev: VdevId) -> u64 {
        let mut config = self.config();
        config.top_mut(vdev).map_or(0, |top| {
            // What does not make a whole metaslab does not count.
            let unit = 1_u64.checked_shl(top.metaslab_shift).unwrap_or(1);
            top.asize / unit * unit
        })
    }
}
