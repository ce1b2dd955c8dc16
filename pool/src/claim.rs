//! Claiming intent logs: before anything is allocated, the blocks of logs that were written
//! after the last synced group are marked allocated (format/2e 4).
//!
//! A log's blocks are allocated without any space map saying so, until the group they were
//! allocated in is synced. After a crash they are the only blocks in use that the maps do not
//! know. What was claimed is noted in the log's header, so that a replay, now or at a later
//! import, applies just that.

use crate::allocation::Space;
use crate::error::ImportError;
use crate::pool::Pool;
use cenote_base::{ObjectId, ObjsetId, Txg};
use cenote_dmu::{ObjectSet, TxCost, TxgGate};
use cenote_dsl::DslError;
use cenote_intent_log::IntentLog;
use cenote_ondisk::dsl_dataset::DslDataset;
use cenote_ondisk::intent_log::IntentLogHeader;
use cenote_ondisk::intent_log::block::sequence;
use cenote_ondisk::intent_log::header::{FLAG_CLAIM_RECORD_SEQUENCE_VALID, FLAG_REPLAY_NEEDED};
use cenote_ondisk::{BlockPointer, ObjectType};
use std::sync::Arc;

/// A log whose header is to tell of the claim.
struct Claimed {
    dataset: ObjectId,
    header: IntentLogHeader,
}

fn refusal(reason: String) -> ImportError {
    ImportError::NotWritable { reason }
}

/// Claims all logs of a pool that was synced up to `synced` and is about to be written to.
///
/// # Errors
/// If a log cannot be read or its blocks are taken, or a header must change in a dataset whose
/// key is not there.
pub(crate) fn claim_logs(
    pool: &Pool,
    space: &Space,
    gate: &Arc<TxgGate>,
    synced: Txg,
) -> Result<(), ImportError> {
    let mut claimed = Vec::new();
    for (dataset, set) in heads(pool)? {
        let log = IntentLog::open(&set).map_err(|error| refusal(error.to_string()))?;
        let Some(log) = log.filter(|log| !log.is_claimed()) else {
            continue;
        };
        if let Some(header) = claim(&log, space, synced)? {
            claimed.push(Claimed { dataset, header });
        }
    }
    for Claimed { dataset, header } in claimed {
        let dataset = pool.dsl().dataset_of(dataset)?;
        let head = pool.dsl().open_for_writing(&dataset, gate);
        let head = head.map_err(|error| match error {
            DslError::KeyRequired { name } => refusal(format!(
                "{name} has an intent log that was not replayed, and its key is not loaded"
            )),
            error => error.into(),
        })?;
        let tx = gate.begin(TxCost::default())?;
        head.set().set_intent_log_header(&tx, header.encode())?;
    }
    Ok(())
}

/// The object sets of all heads, opened without keys.
fn heads(pool: &Pool) -> Result<Vec<(ObjectId, Arc<ObjectSet>)>, ImportError> {
    let mut heads = Vec::new();
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
        heads.push((
            id,
            ObjectSet::open(cache, ObjsetId(id.0), phys.block_pointer, None)?,
        ));
    }
    Ok(heads)
}

/// Claims a log's blocks; its new header if there is anything in it.
fn claim(
    log: &IntentLog,
    space: &Space,
    synced: Txg,
) -> Result<Option<IntentLogHeader>, ImportError> {
    let mut header = log.header().clone();
    let mut records = 0_u64;
    let mut chain = log.chain();
    for block in chain.by_ref() {
        let block = block.map_err(|error| refusal(error.to_string()))?;
        claim_block(space, &block.pointer, synced)?;
        let data = block.data_pointers();
        if !data.clones.is_empty() {
            let reason = "an intent log that was not replayed clones blocks".to_owned();
            return Err(refusal(reason));
        }
        for pointer in &data.writes {
            claim_block(space, pointer, synced)?;
        }
        for record in block.headers() {
            records += 1;
            header.claim_record_sequence = header.claim_record_sequence.max(record.sequence);
        }
        header.claim_block_sequence = header.claim_block_sequence.max(block.sequence());
    }
    // The last block of a chain is allocated and never written.
    let end = *chain.end();
    if !end.is_hole() {
        claim_block(space, &end, synced)?;
        header.claim_block_sequence = header.claim_block_sequence.max(sequence(&end));
    }
    if records == 0 {
        return Ok(None);
    }
    header.claim_txg = Txg(synced.0 + 1);
    header.flags |= FLAG_REPLAY_NEEDED | FLAG_CLAIM_RECORD_SEQUENCE_VALID;
    Ok(Some(header))
}

fn claim_block(space: &Space, pointer: &BlockPointer, synced: Txg) -> Result<(), ImportError> {
    if pointer.is_hole() || pointer.is_embedded() || pointer.physical_birth() <= synced {
        return Ok(());
    }
    for dva in pointer.dvas() {
        let claimed = space.claim(dva);
        claimed.map_err(|conflict| refusal(format!("an intent log's block: {conflict}")))?;
    }
    Ok(())
}
