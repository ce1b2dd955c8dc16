//! Claiming intent logs: before anything is allocated, the blocks of logs that were written
//! after the last synced group are marked allocated (format/2e 4).
//!
//! A log's blocks are allocated without any space map saying so, until the group they were
//! allocated in is synced. After a crash they are the only blocks in use that the maps do not
//! know. What was claimed is noted in the log's header, so that a replay, now or at a later
//! import, applies just that.
//!
//! Logs may be out of reach, because their device is missing and the import continues without it,
//! or because the import rewound to a time before them. Then they are discarded: their headers are
//! cleared and the blocks known to the maps are freed. A log that was claimed in the state that an
//! import rewinds to belongs to that state: it is kept if all of it is there, as in a checkpoint. A
//! missing or resting device costs only its own contents: a log that leads to it is claimed up to
//! there, and other logs in full. Unless it rests, the administrator must give it up explicitly
//! (`-m`). If no log leads to a missing device, `-m` is not needed: a log's header is on disk
//! before anything in the log is promised, so nothing on that device was.
//!
//! One damaged dataset must not make a pool read-only: it could not even be destroyed then. If an
//! object set is unreadable, its log is left as it is. After an export that costs nothing, since
//! the maps know all blocks of all logs. After a crash it may cost data promised by `fsync` in that
//! dataset, should it become readable again: so the import requires `-m`, and notes the head. If
//! the head is readable at a later import, its log is discarded.

use crate::allocation::Space;
use crate::error::ImportError;
use crate::import::log_devices::LogDevices;
use crate::pool::Pool;
use cenote_base::{Bookmark, ObjectId, ObjsetId, Txg, VdevId};
use cenote_dmu::ObjectSet;
use cenote_dsl::DslError;
use cenote_dsl::write::{SyncContext, SyncTask};
use cenote_intent_log::{Chain, ChainBlock, IntentLog, OwnedBlocks};
use cenote_io::IoContext;
use cenote_ondisk::dsl_dataset::DslDataset;
use cenote_ondisk::intent_log::IntentLogHeader;
use cenote_ondisk::intent_log::block::sequence;
use cenote_ondisk::intent_log::header::{FLAG_CLAIM_RECORD_SEQUENCE_VALID, FLAG_REPLAY_NEEDED};
use cenote_ondisk::log_notes::NOTES_MAX;
use cenote_ondisk::{BlockPointer, ObjectType};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Stores the headers of logs after their claim, counts their references to clones, and frees
/// what was discarded.
#[derive(Debug, Default)]
pub(crate) struct StoreLogHeaders {
    headers: Vec<(ObjectId, IntentLogHeader)>,
    discarded: OwnedBlocks,
    cloned: Vec<BlockPointer>,
    /// Heads whose logs were discarded.
    lost: Vec<ObjectId>,
    /// Those of them whose logs were claimed, and so held something.
    lost_claims: Vec<ObjectId>,
    /// The newest group that a block of a waiting log was allocated in.
    newest_birth: Txg,
    /// Heads whose logs are not claimed, if that changed.
    unclaimed: Option<BTreeMap<ObjectId, Txg>>,
    /// Heads whose object sets cannot be read.
    unreadable: Vec<UnreadableHead>,
    /// Heads whose logs are claimed, and wait for their replay.
    waiting: Vec<ObjectId>,
}

impl StoreLogHeaders {
    /// Whether there is nothing to store.
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty() && self.unclaimed.is_none()
    }

    /// The heads whose logs are discarded.
    pub fn lost(&self) -> &[ObjectId] {
        &self.lost
    }

    /// Those of the discarded logs that had been claimed.
    pub fn lost_claims(&self) -> &[ObjectId] {
        &self.lost_claims
    }

    /// The heads whose logs are claimed, and wait for their replay.
    pub fn waiting(&self) -> &[ObjectId] {
        &self.waiting
    }

    /// The newest group that a block of a waiting log was allocated in. Blocks of a log are
    /// allocated in groups that a crash keeps from the disk, so this may be later than the pool's
    /// last group.
    pub fn newest_birth(&self) -> Txg {
        self.newest_birth
    }

    /// Notes a log that waits for its replay.
    fn wait(&mut self, head: ObjectId, log: &IntentLog) {
        self.waiting.push(head);
        let (owned, _) = log.known_blocks();
        let blocks = owned.chain.iter().chain(&owned.writes);
        let newest = blocks.map(BlockPointer::physical_birth).max();
        self.newest_birth = self.newest_birth.max(newest.unwrap_or_default());
    }

    /// The heads whose object sets cannot be read.
    pub fn unreadable(&self) -> &[UnreadableHead] {
        &self.unreadable
    }

    fn discard(&mut self, pool: &Pool, (head, log): (ObjectId, &IntentLog), synced: Txg) {
        self.headers.push((head, IntentLogHeader::default()));
        if may_hold_promises(log) {
            self.note_lost(pool, head, &log.header().log);
        }
        // The maps know blocks of groups up to the last. They do not lead beyond what cannot be
        // read, as the log does not either: then a part of its device's space stays taken.
        let first = log.header().log;
        let mut vdevs = first.dvas().map(|dva| dva.vdev());
        let is_here = vdevs.all(|vdev| is_readable(pool, vdev));
        let owned = is_here.then(|| log.owned_blocks().ok()).flatten();
        let mut owned = owned.unwrap_or_else(|| OwnedBlocks {
            chain: vec![first],
            ..OwnedBlocks::default()
        });
        owned.retain(|pointer| pointer.physical_birth() <= synced);
        self.discarded.chain.append(&mut owned.chain);
        self.discarded.writes.append(&mut owned.writes);
        self.discarded.clones.append(&mut owned.clones);
    }

    /// Frees what a claimed log had behind the place where it ends now.
    fn discard_rest(&mut self, log: &IntentLog, header: &IntentLogHeader) {
        let (before, _) = log.known_blocks();
        let (kept, _) = log.ending(header).known_blocks();
        // What is kept comes first in each of the lists.
        fn rest(before: Vec<BlockPointer>, kept: &[BlockPointer]) -> Vec<BlockPointer> {
            before.into_iter().skip(kept.len()).collect()
        }
        let discarded = &mut self.discarded;
        discarded.chain.extend(rest(before.chain, &kept.chain));
        discarded.writes.extend(rest(before.writes, &kept.writes));
        discarded.clones.extend(rest(before.clones, &kept.clones));
    }

    /// Notes that a head's log is lost from this block on. A device rests only after all logs have
    /// left it, and nothing is written to it since: a block there was never promised.
    fn note_lost(&mut self, pool: &Pool, head: ObjectId, from: &BlockPointer) {
        if !rests(pool, from) {
            self.lost.push(head);
        }
    }

    /// Notes heads whose logs are not looked at, and forgets those that are.
    fn note(&mut self, mut notes: Notes, found: Logs, synced: Txg) -> Result<(), ImportError> {
        let before = notes.unclaimed.clone();
        let still = |head: &ObjectId| found.unreadable.iter().any(|other| other.head == *head);
        notes.unclaimed.retain(|head, _| still(head));
        if !notes.is_clean {
            for head in &found.unreadable {
                notes.unclaimed.entry(head.head).or_insert(synced);
            }
        }
        if notes.unclaimed.len() > NOTES_MAX {
            let count = notes.unclaimed.len();
            return Err(refusal(format!(
                "the object sets of {count} datasets cannot be read"
            )));
        }
        self.unclaimed = (notes.unclaimed != before).then_some(notes.unclaimed);
        self.unreadable = found.unreadable;
        Ok(())
    }
}

impl SyncTask for StoreLogHeaders {
    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        for (dataset, header) in &self.headers {
            context.store_log_header(*dataset, header)?;
        }
        for pointer in &self.cloned {
            context.pool.share(pointer);
        }
        if let Some(heads) = &self.unclaimed {
            context.store_unclaimed_logs(heads)?;
        }
        context.free_log(&self.discarded)
    }
}

/// A head whose object set block, or the log's header in it, cannot be read.
#[derive(Clone, Debug)]
pub(crate) struct UnreadableHead {
    /// The dataset.
    pub head: ObjectId,
    /// Why.
    pub reason: String,
}

/// The state of logs that are unreadable.
#[derive(Debug)]
pub(crate) struct Notes {
    /// Whether the pool was exported: then the maps know all blocks of all logs.
    pub is_clean: bool,
    /// Whether logs may be lost.
    pub may_lose: bool,
    /// Heads whose logs an earlier import did not claim, each with the last group before it.
    pub unclaimed: BTreeMap<ObjectId, Txg>,
    /// The log devices.
    pub devices: LogDevices,
}

impl Notes {
    /// Whether a chain ends where a device is missing, or is not as the pool left it. What it has
    /// there is only lost with words.
    fn is_cut(&self, pool: &Pool, chain: &Chain) -> Result<bool, ImportError> {
        let is_cut = self.devices.may_lack(chain);
        match is_cut && !self.may_lose && !rests(pool, chain.end()) {
            true => Err(ImportError::MissingLogs {
                missing: self.devices.of(chain.end()),
            }),
            false => Ok(is_cut),
        }
    }
}

/// Whether a replay of the log may find anything. A log that was claimed without records does not.
fn may_hold_promises(log: &IntentLog) -> bool {
    !log.is_claimed() || log.header().needs_replay()
}

fn refusal(reason: String) -> ImportError {
    ImportError::NotWritable { reason }
}

/// Claims all logs of a pool that was synced up to `synced` and is about to be written to.
///
/// What it returns is to be carried out in the first group.
///
/// # Errors
/// If a log cannot be read or its blocks are taken.
pub(crate) fn claim_logs(
    pool: &Pool,
    space: &Space,
    synced: Txg,
    notes: Notes,
) -> Result<StoreLogHeaders, ImportError> {
    let mut store = StoreLogHeaders::default();
    let found = logs(pool)?;
    let mut unreadable = found.unreadable.iter();
    // Logs that the administrator gave up before need not be given up again.
    let lost = unreadable.find(|head| !notes.unclaimed.contains_key(&head.head));
    if let Some(lost) = lost.filter(|_| !notes.is_clean && !notes.may_lose) {
        return Err(ImportError::UnreadableLog {
            dataset: name_of(pool, lost.head),
            reason: lost.reason.clone(),
        });
    }
    for (dataset, log) in &found.logs {
        if log.is_claimed() {
            match cut_off(pool, log, &notes)? {
                None => store.wait(*dataset, log),
                Some(Cut::Within(within)) => {
                    let (header, end) = *within;
                    store.note_lost(pool, *dataset, &end);
                    store.discard_rest(log, &header);
                    store.wait(*dataset, &log.ending(&header));
                    store.headers.push((*dataset, header));
                }
                Some(Cut::Whole) => store.discard(pool, (*dataset, log), synced),
            }
            continue;
        }
        if let Some(before) = notes.unclaimed.get(dataset) {
            // What came after that group may have been overwritten since.
            store.discard(pool, (*dataset, log), *before);
            continue;
        }
        let mut claim = Claim {
            space,
            synced,
            seen: HashSet::new(),
            cloned: Vec::new(),
        };
        let (header, chain, is_cut) = claim.claim(log, |chain| notes.is_cut(pool, chain))?;
        match header {
            Some(header) => {
                if is_cut {
                    store.note_lost(pool, *dataset, chain.end());
                }
                store.wait(*dataset, &log.ending(&header));
                store.headers.push((*dataset, header));
                store.cloned.extend(claim.cloned);
            }
            None if is_cut => store.discard(pool, (*dataset, log), synced),
            None => {}
        }
    }
    store.note(notes, found, synced)?;
    Ok(store)
}

/// Discards the logs of a pool whose state is that of `synced`, but for those that were claimed in
/// that state and are there as a whole.
///
/// # Errors
/// If the datasets cannot be read.
pub(crate) fn discard_logs(
    pool: &Pool,
    synced: Txg,
    notes: Notes,
) -> Result<StoreLogHeaders, ImportError> {
    let mut store = StoreLogHeaders::default();
    let found = logs(pool)?;
    for (dataset, log) in &found.logs {
        if log.is_claimed() && is_whole(log) {
            store.wait(*dataset, log);
            continue;
        }
        if log.is_claimed() && log.header().needs_replay() {
            let mut chain = log.chain();
            while let Some(Ok(_)) = chain.next() {}
            // What the state gone back to has is not given up without words either.
            if log.check_end(&chain).is_err() {
                notes.is_cut(pool, &chain)?;
            }
            store.lost_claims.push(*dataset);
        }
        let known = notes
            .unclaimed
            .get(dataset)
            .map_or(synced, |before| match log.is_claimed() {
                true => synced,
                false => synced.min(*before),
            });
        store.discard(pool, (*dataset, log), known);
    }
    store.note(notes, found, synced)?;
    Ok(store)
}

/// Refuses a pool that is only read if a log that would be replayed on top of its state leads to a
/// log device that is missing.
///
/// # Errors
/// If one does, or the logs cannot be read.
pub(crate) fn check_missing_logs(
    pool: &Pool,
    devices: &LogDevices,
    is_older: bool,
) -> Result<(), ImportError> {
    if !devices.are_missing() {
        return Ok(());
    }
    for (_, log) in &logs(pool)?.logs {
        // A log that was not claimed in an older state does not belong to it.
        if !may_hold_promises(log) || is_older && !log.is_claimed() {
            continue;
        }
        let mut chain = log.chain();
        while let Some(Ok(_)) = chain.next() {}
        let has_ended = log.is_claimed() && log.check_end(&chain).is_ok();
        if !has_ended && chain.is_gone() && !rests(pool, chain.end()) {
            let missing = devices.of(chain.end());
            return Err(ImportError::MissingLogs { missing });
        }
    }
    Ok(())
}

/// A dataset's name, or its number where it has none that can be read.
pub(crate) fn name_of(pool: &Pool, head: ObjectId) -> String {
    match pool.dsl().dataset_of(head) {
        Ok(dataset) => dataset.name().as_str().to_owned(),
        Err(_) => format!("object {head}"),
    }
}

/// Whether anything can be read from a top-level vdev.
fn is_readable(pool: &Pool, vdev: VdevId) -> bool {
    let state = pool.vdevs().top_state(vdev);
    state.is_some_and(|(state, _)| state.is_readable())
}

/// What is left of a log that was claimed and leads to a vdev that is missing now.
enum Cut {
    /// Its blocks before the one with this pointer: the header of these.
    Within(Box<(IntentLogHeader, BlockPointer)>),
    /// Nothing.
    Whole,
}

/// Whether a log that was claimed is cut off in the part that was claimed: where a device is
/// missing, or, with words, where its blocks or what they point to can no longer be read.
fn cut_off(pool: &Pool, log: &IntentLog, notes: &Notes) -> Result<Option<Cut>, ImportError> {
    let mut chain = log.chain();
    let mut last_record = None;
    let mut torn = None;
    while let Some(Ok(block)) = chain.next() {
        torn = match notes.may_lose {
            true => first_without_data(log, &block).map(|record| (record, block.pointer)),
            false => None,
        };
        if torn.is_some() {
            break;
        }
        let last = block.headers().map(|record| record.sequence).max();
        last_record = last_record.max(last);
    }
    let (last_record, end) = match torn {
        Some((record, block)) => (record.checked_sub(1), block),
        None if log.check_end(&chain).is_ok() => return Ok(None),
        None if !may_hold_promises(log) && chain.is_gone() => return Ok(Some(Cut::Whole)),
        None if !notes.is_cut(pool, &chain)? && !notes.may_lose => return Ok(None),
        None => (last_record, *chain.end()),
    };
    let Some(last_record) = last_record else {
        return Ok(Some(Cut::Whole));
    };
    let mut header = log.header().clone();
    header.claim_block_sequence = sequence(&end);
    header.claim_record_sequence = header.last_claimed_record().min(last_record);
    header.flags |= FLAG_CLAIM_RECORD_SEQUENCE_VALID;
    Ok(Some(Cut::Within(Box::new((header, end)))))
}

/// Whether all of a log that was claimed can be read, and what it points to.
fn is_whole(log: &IntentLog) -> bool {
    let mut chain = log.chain();
    for block in &mut chain {
        let is_there = |block: &ChainBlock| first_without_data(log, block).is_none();
        if !block.as_ref().is_ok_and(is_there) {
            return false;
        }
    }
    log.check_end(&chain).is_ok()
}

/// The first record of a claimed block whose data was written beside it and cannot be read.
fn first_without_data(log: &IntentLog, block: &ChainBlock) -> Option<u64> {
    let bookmark = Bookmark {
        objset: log.set().id(),
        ..Bookmark::default()
    };
    let pipeline = log.set().cache().pipeline();
    let is_read = |pointer: &BlockPointer| {
        let read = pipeline.read_stored(pointer, bookmark, &IoContext::COMMAND);
        read.is_ok()
    };
    let mut written = log.owned_records(block);
    let torn = written.find(|(_, pointer)| !is_read(pointer));
    torn.map(|(sequence, _)| sequence)
}

/// Whether a block is on a vdev that was taken offline.
fn rests(pool: &Pool, block: &BlockPointer) -> bool {
    block.dvas().any(|dva| is_resting(pool, dva.vdev()))
}

/// Whether all devices of a top-level vdev were taken offline.
fn is_resting(pool: &Pool, vdev: VdevId) -> bool {
    let tree = pool.vdev_tree();
    let top = tree.children.iter().find(|top| top.id == Some(vdev));
    top.is_some_and(|top| top.leaves().all(|leaf| leaf.state.offline))
}

/// The logs of all heads, as far as they can be found.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    /// The heads that have one, with it. It is opened without keys.
    pub logs: Vec<(ObjectId, IntentLog)>,
    /// The heads of which it is not known.
    pub unreadable: Vec<UnreadableHead>,
}

/// The logs of all heads.
///
/// # Errors
/// If the list of heads cannot be read.
pub(crate) fn logs(pool: &Pool) -> Result<Logs, ImportError> {
    let mut all = Logs::default();
    for found in pool.mos().objects(ObjectId(1)) {
        let (id, dnode) = found?;
        if dnode.bonus_type != ObjectType::DSL_DATASET {
            continue;
        }
        let phys = DslDataset::decode(&dnode.bonus)?;
        if phys.is_snapshot() || phys.block_pointer.is_hole() {
            continue;
        }
        let cache = Arc::clone(pool.cache());
        let unreadable = |reason: String| UnreadableHead { head: id, reason };
        let set = match ObjectSet::open(cache, ObjsetId(id.0), phys.block_pointer, None) {
            Ok(set) => set,
            Err(error) if error.is_damage() => {
                all.unreadable.push(unreadable(error.to_string()));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        match IntentLog::open(&set) {
            Ok(log) => all.logs.extend(log.map(|log| (id, log))),
            Err(error) => all.unreadable.push(unreadable(error.to_string())),
        }
    }
    Ok(all)
}

/// The claim of one log.
struct Claim<'a> {
    space: &'a Space,
    synced: Txg,
    /// Places of blocks of data that were claimed: several records may name one.
    seen: HashSet<[u64; 2]>,
    /// Blocks to which the log holds references.
    cloned: Vec<BlockPointer>,
}

impl Claim<'_> {
    /// Claims the log's blocks; its new header if there is anything in it, its chain when it ended,
    /// and whether it `is_cut` there.
    fn claim(
        &mut self,
        log: &IntentLog,
        is_cut: impl Fn(&Chain) -> Result<bool, ImportError>,
    ) -> Result<(Option<IntentLogHeader>, Chain, bool), ImportError> {
        let mut header = log.header().clone();
        let mut records = 0_u64;
        let mut ended = false;
        let mut chain = log.chain();
        while let Some(block) = chain.next() {
            let block = match block {
                // What is on a device that is missing was given up.
                Err(_) if chain.is_gone() => break,
                block => block.map_err(|error| refusal(error.to_string()))?,
            };
            self.claim_block(&block.pointer)?;
            header.claim_block_sequence = header.claim_block_sequence.max(block.sequence());
            let counted = self.claim_records(log, &block, &mut header)?;
            records += counted.unwrap_or(0);
            ended = counted.is_none();
            if ended {
                break;
            }
        }
        let is_cut = !ended && is_cut(&chain)?;
        if records == 0 && is_cut {
            return Ok((None, chain, is_cut));
        }
        // The last block of a chain is allocated and never written.
        let end = *chain.end();
        if !ended && !end.is_hole() {
            self.claim_block(&end)?;
            header.claim_block_sequence = header.claim_block_sequence.max(sequence(&end));
        }
        if end.is_hole() && records == 0 && !ended {
            return Ok((None, chain, is_cut));
        }
        // A log without records is claimed, too: a mirror side that comes back may have a block
        // there that was never promised, and that leads to unclaimed blocks.
        header.claim_txg = Txg(self.synced.0 + 1);
        header.flags |= FLAG_CLAIM_RECORD_SEQUENCE_VALID;
        if records > 0 || ended {
            header.flags |= FLAG_REPLAY_NEEDED;
        }
        Ok((Some(header), chain, is_cut))
    }

    /// Claims what a block's records point to; how many there are, or `None` if one of them ends
    /// the log because its data was not written before the power went.
    fn claim_records(
        &mut self,
        log: &IntentLog,
        block: &ChainBlock,
        header: &mut IntentLogHeader,
    ) -> Result<Option<u64>, ImportError> {
        let mut records = 0;
        for record in block.pointing_records() {
            if let Some(pointer) = &record.write
                && !self.claim_write(log, pointer)?
            {
                return Ok(None);
            }
            if record.txg > self.synced {
                // What was cloned was on disk already; anything else is no clone.
                if record.clones.iter().any(|pointer| self.is_new(pointer)) {
                    return Ok(None);
                }
                self.cloned.extend(record.clones);
            }
            records += 1;
            header.claim_record_sequence = header.claim_record_sequence.max(record.sequence);
        }
        Ok(Some(records))
    }

    /// Claims a block of data; whether it is there.
    fn claim_write(
        &mut self,
        log: &IntentLog,
        pointer: &BlockPointer,
    ) -> Result<bool, ImportError> {
        if !self.is_new(pointer) || !self.seen.insert([pointer.words[0], pointer.words[1]]) {
            return Ok(true);
        }
        let bookmark = Bookmark {
            objset: log.set().id(),
            ..Bookmark::default()
        };
        let pipeline = log.set().cache().pipeline();
        if pipeline
            .read_stored(pointer, bookmark, &IoContext::COMMAND)
            .is_err()
        {
            return Ok(false);
        }
        self.claim_block(pointer)?;
        Ok(true)
    }

    /// Whether no space map knows the block.
    fn is_new(&self, pointer: &BlockPointer) -> bool {
        !pointer.is_hole() && !pointer.is_embedded() && pointer.physical_birth() > self.synced
    }

    fn claim_block(&self, pointer: &BlockPointer) -> Result<(), ImportError> {
        if !self.is_new(pointer) {
            return Ok(());
        }
        for dva in pointer.dvas() {
            let claimed = self.space.claim(dva);
            claimed.map_err(|conflict| refusal(format!("an intent log's block: {conflict}")))?;
        }
        Ok(())
    }
}
