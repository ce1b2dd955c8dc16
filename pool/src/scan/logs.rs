//! Reading and mending the intent logs that are claimed and not replayed yet.
//!
//! Such a log waits until somebody loads a key or mounts the dataset, for months perhaps. Until
//! then it is what `fsync` promised, on blocks to which no tree leads: they hang on the header in
//! the object set block. A walk that passed them over would call a device complete that has none
//! of them.
//!
//! All their copies are judged, whatever a device is known to have missed: the groups of a power
//! cut are in no dirty time log. A log that is being written needs nothing. What it holds is in
//! memory, too, and in a group before a scan has ended.

use super::plan;
use super::walk::{Mender, Walked};
use cenote_base::{BlockId, Bookmark, Level, ObjectId, ObjsetId};
use cenote_dmu::{DmuError, ObjectSet};
use cenote_dsl::ErrorEntry;
use cenote_intent_log::{IntentLog, is_log_block};
use cenote_io::{IoContext, MendScope, Mended};
use cenote_ondisk::BlockPointer;
use std::sync::Arc;

/// What stands for an intent log in the place of a block's level (format/1b 8).
const LOG_LEVEL: i64 = -2;

/// Mends the claimed logs of datasets. Whether all were come to before `is_interrupted` said so.
pub(super) fn mend_logs(
    mos: &Arc<ObjectSet>,
    datasets: impl IntoIterator<Item = ObjectId>,
    (mender, walked): (&Mender, &mut Walked),
    is_interrupted: impl Fn() -> bool,
) -> Result<bool, DmuError> {
    for id in datasets {
        if is_interrupted() {
            return Ok(false);
        }
        let head = plan::dataset(mos, id)?;
        let head = head.filter(|found| !found.is_snapshot() && !found.block_pointer.is_hole());
        let Some(head) = head else {
            continue;
        };
        // The walk has counted what cannot be read here.
        let cache = Arc::clone(mos.cache());
        let set = ObjectSet::open(cache, ObjsetId(id.0), head.block_pointer, None);
        let log = set
            .ok()
            .and_then(|set| IntentLog::open(&set).ok().flatten());
        if let Some(log) = log.filter(IntentLog::is_claimed) {
            mend_log(&log, mender, walked);
        }
    }
    Ok(true)
}

fn mend_log(log: &IntentLog, mender: &Mender, walked: &mut Walked) {
    let objset = log.set().id();
    let mut chain = log.chain();
    while let Some(Ok(block)) = chain.next() {
        let pointer = block.pointer;
        let bookmark = bookmark(objset, block.sequence());
        let is_valid = |bytes: &[u8]| is_log_block(&pointer, bytes);
        let mended =
            mender
                .pipeline
                .mend_log_block(&pointer, bookmark, &is_valid, &IoContext::SCRUB);
        note(walked, bookmark, &pointer, mended.ok());
        for write in log.owned_writes(&block) {
            let pipeline = &mender.pipeline;
            let mended = pipeline.mend(&write, bookmark, MendScope::All, &IoContext::SCRUB);
            note(walked, bookmark, &write, mended.ok());
        }
    }
    if log.check_end(&chain).is_err() {
        let end = chain.end();
        let sequence = cenote_ondisk::intent_log::block::sequence(end);
        note(walked, bookmark(objset, sequence), end, None);
    }
}

fn bookmark(objset: ObjsetId, sequence: u64) -> Bookmark {
    Bookmark {
        objset,
        object: ObjectId(0),
        level: Level(0),
        block: BlockId(sequence),
    }
}

/// Counts a block. Nothing was found of it, or it was mended.
fn note(walked: &mut Walked, place: Bookmark, pointer: &BlockPointer, mended: Option<Mended>) {
    let is_lost = mended.is_none_or(|mended| mended.lost > 0);
    walked.done.examined += pointer.allocated_size();
    walked.done.issued += pointer.allocated_size();
    walked.done.errors += u64::from(is_lost);
    if is_lost {
        walked.lost.insert(ErrorEntry {
            objset: place.objset,
            object: place.object,
            level: LOG_LEVEL,
            block: place.block.0,
            birth: Some(pointer.logical_birth()),
        });
    }
}
