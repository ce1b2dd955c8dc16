//! Frees in the space of removed vdevs (format/1c 6).
//!
//! The space itself is freed where the removal copied it to. On the removed vdev the range is
//! recorded as obsolete, in a space map in units of bytes. Condensing the mapping uses it to count
//! how much of each segment is still needed. A range may lead to another vdev that was removed
//! later, and is then obsolete there as well.

use super::error::SyncError;
use super::record::{append, map_object};
use super::syncer::Syncer;
use cenote_base::{ObjectId, VdevId};
use cenote_dmu::zap::ZapValue;
use cenote_dsl::write::{PoolServices, SyncContext};
use cenote_ondisk::features;
use cenote_ondisk::space_map::{Action, SpaceMapHeader};
use cenote_ondisk::space_map_writer::SpaceMapWriter;
use cenote_ondisk::vdev_zap;
use std::collections::BTreeMap;
use std::ops::Range;

const BLOCK_SIZE: u64 = 128 << 10;

/// Ranges that became obsolete and are not noted on disk yet, by vdev.
pub(super) type Obsolete = BTreeMap<VdevId, Vec<Range<u64>>>;

impl Syncer {
    /// Notes on disk what became obsolete.
    pub(super) fn store_obsolete(&self, context: &SyncContext<'_>) -> Result<(), SyncError> {
        for (vdev, ranges) in std::mem::take(&mut *self.obsolete()) {
            let zap = {
                let config = self.config();
                let tree = config.config.vdev_tree.as_ref();
                let mut tops = tree.into_iter().flat_map(|tree| &tree.children);
                tops.find(|top| top.id == Some(vdev))
                    .and_then(|top| top.top_zap)
            };
            if let Some(zap) = zap {
                record(context, zap, &ranges, self.pass())?;
            }
        }
        Ok(())
    }
}

fn record(
    context: &SyncContext<'_>,
    zap: ObjectId,
    ranges: &[Range<u64>],
    pass: u32,
) -> Result<(), SyncError> {
    let zap = context.mos().zap(zap)?;
    if zap
        .lookup_u64(vdev_zap::top::OBSOLETE_COUNTS_ARE_PRECISE)?
        .unwrap_or(0)
        == 0
    {
        return Ok(());
    }
    let object = match zap.lookup_u64(vdev_zap::top::OBSOLETE_SPACE_MAP)? {
        Some(map) => context.mos().object(ObjectId(map))?,
        None => {
            let (object, _) = map_object(context, BLOCK_SIZE)?;
            let value = ZapValue::from_u64(object.id().0);
            zap.update(
                context.tx,
                vdev_zap::top::OBSOLETE_SPACE_MAP.as_bytes(),
                &value,
            )?;
            object
        }
    };
    let mut header = SpaceMapHeader::decode(&object.dnode().bonus)?;
    let at = header.length;
    let two_words = context.dsl.features().is_active(features::SPACEMAP_V2);
    let mut writer = SpaceMapWriter::new(0, 0, object.dnode().data_block_size, at, two_words);
    writer.debug(Action::Alloc, u64::from(pass), context.txg());
    for range in ranges {
        let length = range.end - range.start;
        writer.range(Action::Alloc, VdevId(0), range.start, length);
        header.allocated += i64::try_from(length).unwrap_or(i64::MAX);
    }
    header.length = writer.length();
    append(context, &object, &header, at, &writer.into_bytes())
}
