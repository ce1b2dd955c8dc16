//! Reading and repairing intent logs that are claimed but not replayed.
//!
//! Such a log waits until a user loads a key or mounts the dataset, perhaps for months. Until then
//! it holds data promised by `fsync`, in blocks that only the header in the object set block leads
//! to. If a walk skipped them, a device that has none of them would count as complete.
//!
//! All their copies are checked, whatever a device is known to have missed: the groups before a
//! power cut are in no dirty time log. A log that is being written needs no check: its data is in
//! memory, too, and in a group before a scan ends.
//!
//! A power cut may leave a block on one mirror side only. It was never promised, but the claim
//! reached it, and the replay needs it. So an import repairs the logs that it claims
//! ([`mend_waiting`]): that side may fail before the replay, and a sequential rebuild does not
//! check which side is right.

use super::plan;
use super::walk::{Due, Mender, Walked};
use crate::sync::Syncer;
use cenote_base::{BlockId, Bookmark, Level, MemoryBudget, ObjectId, ObjsetId, Txg};
use cenote_dmu::{DmuError, ObjectSet};
use cenote_dsl::ErrorEntry;
use cenote_intent_log::{IntentLog, is_log_block};
use cenote_io::{IoContext, MendScope, Mended};
use cenote_ondisk::BlockPointer;
use std::sync::Arc;

/// The level that means an intent log in a block's place (format/1b 8).
const LOG_LEVEL: i64 = -2;

/// Repairs the claimed logs of datasets. Returns whether it finished before `is_interrupted`.
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
        if let Some(log) = claimed_log(mos, id)? {
            mend_log(&log, mender, walked);
        }
    }
    Ok(true)
}

/// The log of a head, if it is claimed.
fn claimed_log(mos: &Arc<ObjectSet>, id: ObjectId) -> Result<Option<IntentLog>, DmuError> {
    let head = plan::dataset(mos, id)?;
    let head = head.filter(|found| !found.is_snapshot() && !found.block_pointer.is_hole());
    let Some(head) = head else {
        return Ok(None);
    };
    // A walk has counted what cannot be read here.
    let cache = Arc::clone(mos.cache());
    let set = ObjectSet::open(cache, ObjsetId(id.0), head.block_pointer, None);
    let log = set
        .ok()
        .and_then(|set| IntentLog::open(&set).ok().flatten());
    Ok(log.filter(IntentLog::is_claimed))
}

/// Repairs the logs of these heads, which were claimed in the group on disk. The pool is not in use
/// yet.
///
/// # Errors
/// If the pool's metadata is unreadable. Logs that cannot be repaired stay as they were.
pub(super) fn mend_waiting(
    syncer: &Syncer,
    buffers: &Arc<MemoryBudget>,
    heads: &[ObjectId],
) -> Result<(), DmuError> {
    let cache = syncer.mos.cache().for_io(&IoContext::SCRUB);
    let mos = ObjectSet::open(cache, ObjsetId::MOS, syncer.uberblock().root, None)?;
    let mender = Mender {
        pipeline: Arc::clone(&syncer.pipeline),
        buffers: Arc::clone(buffers),
        due: Arc::new(Due::All(Txg(0), Txg(u64::MAX))),
    };
    // Logs are written in groups that are open. The claim is on disk, and so all of them is.
    let known = syncer.space.repairable();
    let newest = newest_birth(&mos, heads)?;
    syncer.space.opened_at(known.max(newest));
    let heads = heads.iter().copied();
    let mended = mend_logs(&mos, heads, (&mender, &mut Walked::default()), || false);
    syncer.space.opened_at(known);
    mended.map(|_| ())
}

/// The group of the newest block of these heads' logs.
fn newest_birth(mos: &Arc<ObjectSet>, heads: &[ObjectId]) -> Result<Txg, DmuError> {
    let mut newest = Txg(0);
    for head in heads {
        let log = claimed_log(mos, *head)?;
        let owned = log.map(|log| log.known_blocks().0).unwrap_or_default();
        let blocks = owned.chain.iter().chain(&owned.writes);
        newest = blocks
            .map(BlockPointer::physical_birth)
            .fold(newest, Txg::max);
    }
    Ok(newest)
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
                .mend_log_block(&pointer, bookmark, &is_valid, &IoContext::VERIFICATION);
        note(walked, bookmark, &pointer, mended.ok());
        for write in log.owned_writes(&block) {
            let pipeline = &mender.pipeline;
            let mended = pipeline.mend(&write, bookmark, MendScope::All, &IoContext::VERIFICATION);
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

/// Counts a block; `mended` is `None` if no copy was found.
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
