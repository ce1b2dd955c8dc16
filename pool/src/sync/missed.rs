//! Storing what devices missed: their dirty time logs (format/1c.7).
//!
//! A device that missed a write of a txg must never be trusted with that txg again, not even after
//! a crash. So its log is stored with the txg that it missed. Only if a write of the uberblock
//! itself fails, the log is stored with the next txg.

use super::error::SyncError;
use super::syncer::Syncer;
use cenote_base::VdevId;
use cenote_base::{Guid, ObjectId, Txg};
use cenote_dmu::{NewObject, Object};
use cenote_dsl::write::SyncContext;
use cenote_ondisk::ObjectType;
use cenote_ondisk::features;
use cenote_ondisk::space_map::{Action, HISTOGRAM_BUCKETS, SpaceMapHeader};
use cenote_ondisk::space_map_writer::SpaceMapWriter;
use std::ops::Range;

const BLOCK: u64 = 4 << 10;
const INDIRECT_SHIFT: u8 = 14;

impl Syncer {
    /// Stores the logs that changed since the last call.
    pub(super) fn store_missed(&self, context: &SyncContext<'_>) -> Result<(), SyncError> {
        // Devices that miss writes still in flight must be in the logs, too.
        self.pipeline.arrive();
        for (leaf, missed) in self.vdevs.shape().take_changed_dtls() {
            let known = self.config().leaf_mut(leaf).map(|leaf| leaf.dtl);
            // A distributed spare has no log: what it missed, the devices below it did.
            let Some(known) = known else { continue };
            let object = store(context, known, &missed)?;
            if known.is_none() {
                self.note_log(leaf, object);
            }
        }
        Ok(())
    }

    fn note_log(&self, leaf: Guid, object: ObjectId) {
        let mut config = self.config();
        if let Some(leaf) = config.leaf_mut(leaf) {
            leaf.dtl = Some(object);
            config.touch();
        }
    }
}

fn open(context: &SyncContext<'_>, known: Option<ObjectId>) -> Result<Object, SyncError> {
    if let Some(object) = known {
        return Ok(context.mos().object(object)?);
    }
    let has_histogram = context
        .dsl
        .features()
        .get(features::SPACEMAP_HISTOGRAM)
        .is_some();
    let header = SpaceMapHeader {
        object: ObjectId(0),
        length: 0,
        allocated: 0,
        histogram: has_histogram.then_some([0; HISTOGRAM_BUCKETS]),
    };
    let new = NewObject {
        indirect_shift: INDIRECT_SHIFT,
        ..NewObject::new(ObjectType::SPACE_MAP, BLOCK)
    };
    let new = new.with_bonus(ObjectType::SPACE_MAP_HEADER, header.encode());
    let object = context.mos().allocate(context.tx, new)?;
    if has_histogram {
        context.feature_changed(features::SPACEMAP_HISTOGRAM, 1)?;
    }
    Ok(object)
}

fn store(
    context: &SyncContext<'_>,
    known: Option<ObjectId>,
    missed: &[Range<Txg>],
) -> Result<ObjectId, SyncError> {
    let object = open(context, known)?;
    let mut header = SpaceMapHeader::decode(&object.dnode().bonus)?;
    let block_size = object.dnode().data_block_size;
    let mut writer = SpaceMapWriter::new(0, 0, block_size, 0, false);
    header.allocated = 0;
    for range in missed {
        let length = range.end.0 - range.start.0;
        writer.range(Action::Alloc, VdevId(0), range.start.0, length);
        header.allocated += i64::try_from(length).unwrap_or(i64::MAX);
    }
    header.length = writer.length();
    let mut bytes = writer.into_bytes();
    let whole = (bytes.len() as u64).next_multiple_of(block_size);
    bytes.resize(usize::try_from(whole).expect("a log is a few blocks"), 0);
    if object.dnode().block_id_max.0 > 0 || whole == 0 {
        object.free_range(context.tx, whole, u64::MAX)?;
    }
    if !bytes.is_empty() {
        object.write(context.tx, 0, &bytes)?;
    }
    object.set_bonus(context.tx, ObjectType::SPACE_MAP_HEADER, header.encode())?;
    Ok(object.id())
}
