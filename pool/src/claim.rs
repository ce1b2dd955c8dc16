//! Claiming intent logs: before anything is allocated, the blocks of logs that were written
//! after the last synced group are marked allocated (format/2e 4).
//!
//! A log's blocks are allocated without any space map saying so, until the group they were
//! allocated in is synced. After a crash they are the only blocks in use that the maps do not
//! know. What was claimed is noted in the log's header, so that a replay, now or at a later
//! import, applies just that.
//!
//! Where logs cannot be had, because their device is missing and the import goes on without, or
//! because the import went back to a time before them, they are discarded instead: their headers
//! are cleared and what the maps know of them is freed.

use crate::allocation::Space;
use crate::error::ImportError;
use crate::pool::Pool;
use cenote_base::{Bookmark, ObjectId, ObjsetId, Txg, VdevId};
use cenote_dmu::ObjectSet;
use cenote_dsl::DslError;
use cenote_dsl::write::{SyncContext, SyncTask};
use cenote_intent_log::{ChainBlock, IntentLog, OwnedBlocks};
use cenote_ondisk::dsl_dataset::DslDataset;
use cenote_ondisk::intent_log::IntentLogHeader;
use cenote_ondisk::intent_log::block::sequence;
use cenote_ondisk::intent_log::header::{FLAG_CLAIM_RECORD_SEQUENCE_VALID, FLAG_REPLAY_NEEDED};
use cenote_ondisk::{BlockPointer, ObjectType};
use std::collections::HashSet;
use std::sync::Arc;

/// Stores the headers of logs after their claim, counts their references to clones, and frees
/// what was discarded.
#[derive(Debug, Default)]
pub(crate) struct StoreLogHeaders {
    headers: Vec<(ObjectId, IntentLogHeader)>,
    discarded: OwnedBlocks,
    cloned: Vec<BlockPointer>,
}

impl StoreLogHeaders {
    /// Whether there is nothing to store.
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// The heads whose logs' headers change.
    pub fn heads(&self) -> Vec<ObjectId> {
        self.headers.iter().map(|(head, _)| *head).collect()
    }
}

impl SyncTask for StoreLogHeaders {
    fn check(&mut self, _: &SyncContext<'_>) -> Result<(), DslError> {
        Ok(())
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        for (dataset, header) in &self.headers {
            context.store_log_header(*dataset, header)?;
        }
        for pointer in &self.cloned {
            context.pool.share(pointer);
        }
        context.free_log(&self.discarded)
    }
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
) -> Result<StoreLogHeaders, ImportError> {
    let mut store = StoreLogHeaders::default();
    for (dataset, log) in logs(pool)? {
        if log.is_claimed() {
            continue;
        }
        let mut claim = Claim {
            space,
            synced,
            seen: HashSet::new(),
            cloned: Vec::new(),
        };
        if let Some(header) = claim.claim(&log)? {
            store.headers.push((dataset, header));
            store.cloned.extend(claim.cloned);
        }
    }
    Ok(store)
}

/// Discards all logs of a pool whose state is that of `synced`.
///
/// # Errors
/// If the datasets cannot be read.
pub(crate) fn discard_logs(pool: &Pool, synced: Txg) -> Result<StoreLogHeaders, ImportError> {
    let mut store = StoreLogHeaders::default();
    let is_here = |pointer: &BlockPointer| {
        let mut vdevs = pointer.dvas().map(|dva| dva.vdev());
        vdevs.all(|vdev| is_readable(pool, vdev))
    };
    for (dataset, log) in logs(pool)? {
        let empty = IntentLogHeader::default();
        store.headers.push((dataset, empty));
        // The maps know blocks of groups up to the last. They do not lead beyond what cannot be
        // read, as the log does not either: then a part of its device's space stays taken.
        let first = log.header().log;
        let owned = is_here(&first).then(|| log.owned_blocks().ok()).flatten();
        let owned = owned.unwrap_or_else(|| OwnedBlocks {
            chain: vec![first],
            ..OwnedBlocks::default()
        });
        let is_known = |pointer: &BlockPointer| pointer.physical_birth() <= synced;
        let known = |blocks: Vec<BlockPointer>| {
            let kept = blocks.into_iter().filter(is_known);
            kept.collect::<Vec<_>>()
        };
        store.discarded.chain.extend(known(owned.chain));
        store.discarded.writes.extend(known(owned.writes));
        store.discarded.clones.extend(known(owned.clones));
    }
    Ok(store)
}

/// Whether anything can be read from a top-level vdev.
pub(crate) fn is_readable(pool: &Pool, vdev: VdevId) -> bool {
    let state = pool.vdevs().top_state(vdev);
    state.is_some_and(|(state, _)| state.is_readable())
}

/// The logs of all heads, opened without keys.
pub(crate) fn logs(pool: &Pool) -> Result<Vec<(ObjectId, IntentLog)>, ImportError> {
    let mut logs = Vec::new();
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
        let set = ObjectSet::open(cache, ObjsetId(id.0), phys.block_pointer, None)?;
        let log = IntentLog::open(&set).map_err(|error| refusal(error.to_string()))?;
        logs.extend(log.map(|log| (id, log)));
    }
    Ok(logs)
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
    /// Claims the log's blocks; its new header if there is anything in it.
    fn claim(&mut self, log: &IntentLog) -> Result<Option<IntentLogHeader>, ImportError> {
        let mut header = log.header().clone();
        let mut records = 0_u64;
        let mut ended = false;
        let mut chain = log.chain();
        for block in chain.by_ref() {
            let block = block.map_err(|error| refusal(error.to_string()))?;
            self.claim_block(&block.pointer)?;
            header.claim_block_sequence = header.claim_block_sequence.max(block.sequence());
            let counted = self.claim_records(log, &block, &mut header)?;
            records += counted.unwrap_or(0);
            ended = counted.is_none();
            if ended {
                break;
            }
        }
        // The last block of a chain is allocated and never written.
        let end = *chain.end();
        if !ended && !end.is_hole() {
            self.claim_block(&end)?;
            header.claim_block_sequence = header.claim_block_sequence.max(sequence(&end));
        }
        if records == 0 && !ended {
            return Ok(None);
        }
        header.claim_txg = Txg(self.synced.0 + 1);
        header.flags |= FLAG_REPLAY_NEEDED | FLAG_CLAIM_RECORD_SEQUENCE_VALID;
        Ok(Some(header))
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
        if pipeline.read_stored(pointer, bookmark).is_err() {
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
