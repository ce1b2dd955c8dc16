//! What the parts of a sync share.

use crate::live::LiveSet;
use crate::object_set::ObjectSet;
use crate::policy::{BlockKind, PolicySource};
use cenote_base::Txg;
use cenote_io::BlockSink;
use cenote_ondisk::{BlockPointer, Dnode, Dva};
use std::sync::Arc;

/// The set that is synced, and where its blocks go.
pub(super) struct Writer<'a> {
    pub(super) set: &'a Arc<ObjectSet>,
    pub(super) live: &'a LiveSet,
    pub(super) txg: Txg,
    pub(super) sink: &'a dyn BlockSink,
    pub(super) policy: &'a dyn PolicySource,
}

impl Writer<'_> {
    /// Space that a block is accounted with (format/2b 2).
    pub(super) fn space_of(&self, pointer: &BlockPointer) -> u64 {
        let vdevs = self.set.cache().pipeline().vdevs();
        let space = |dva: Dva| {
            let ratio = vdevs.deflate_ratio(dva.vdev()).unwrap_or(512);
            dva.asize() / 512 * ratio
        };
        match pointer.is_hole() {
            true => 0,
            false => pointer.dvas().map(space).sum(),
        }
    }

    /// Whether holes of an object with this dnode have a birth.
    pub(super) fn has_hole_births(&self, dnode: &Dnode) -> bool {
        let kind = BlockKind::of(dnode, 0, dnode.data_block_size);
        self.policy.policy(&kind).hole_birth
    }
}
