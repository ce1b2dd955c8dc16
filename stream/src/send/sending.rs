//! What all parts of the making of a stream need to know.

use super::snapshot::Snapshot;
use cenote_base::Txg;
use cenote_dmu::traverse::Root;
use cenote_io::ObjsetKeys;
use cenote_ondisk::stream::{Feature, StreamFeatures};
use std::sync::Arc;

/// The largest block in a stream without large blocks.
pub(super) const OLD_BLOCK_SIZE_MAX: u64 = 128 << 10;

/// A stream being made.
pub(super) struct Sending<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) features: StreamFeatures,
    /// The txg of what the receiver has; 0 if that is nothing.
    pub(super) since: Txg,
    /// The keys with which blocks are read.
    pub(super) keys: Option<Arc<ObjsetKeys>>,
    /// Objects that can be: as many as the meta-dnode's blocks hold.
    pub(super) objects: u64,
}

impl<'a> Sending<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, features: StreamFeatures, root: &Root) -> Self {
        let header = snapshot.set.header();
        let meta = &header.meta_dnode;
        let dnodes_per_block = meta.data_block_size / cenote_base::SECTOR_SIZE;
        let blocks = meta.block_id_max.0.saturating_add(1);
        Self {
            snapshot,
            features,
            since: root.since.txg,
            keys: root.keys.clone(),
            objects: blocks.saturating_mul(dnodes_per_block),
        }
    }

    pub(super) fn is_raw(&self) -> bool {
        self.features.has(Feature::Raw)
    }
}
