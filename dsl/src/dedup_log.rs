//! Entries of dedup tables that wait in logs to be moved into the tables.
//!
//! Source: format/2c 4.6. A table of the fast form has two logs: one takes new records while the
//! other is emptied into the table. Entries in a log are in no histogram.

use crate::error::DslError;
use cenote_base::ObjectId;
use cenote_dmu::{Object, ObjectSet};
use cenote_ondisk::DecodeError;
use cenote_ondisk::ddt::{
    DdtEntry, DdtKey, DdtLogHeader, DdtLogRecord, DdtPhys, DdtStatistics, log_records,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Entries are as small as 73 bytes, and no log block is larger.
const LOG_BLOCK: u64 = 128 << 10;
/// Bytes that a log may have: loading it takes memory in proportion.
const LOG_BYTES_MAX: u64 = 1 << 30;

/// The entries in the logs of one table: the last record of each key.
///
/// # Errors
///
/// A log that cannot be read, is not one, or is longer than 1 GiB.
pub fn waiting_entries(
    mos: &Arc<ObjectSet>,
    logs: &[ObjectId],
) -> Result<BTreeMap<DdtKey, DdtLogRecord>, DslError> {
    let mut opened = Vec::new();
    for id in logs {
        let log = mos.object(*id)?;
        let header = DdtLogHeader::decode(&log.dnode().bonus);
        let header = header.map_err(|source| log.malformed(source))?;
        opened.push((header, log));
    }
    // The active log's records are the later ones.
    opened.sort_by_key(|(header, _)| !header.flushing);
    let mut entries = BTreeMap::new();
    for (header, log) in opened {
        read_log(&header, &log, &mut entries)?;
    }
    Ok(entries)
}

fn read_log(
    header: &DdtLogHeader,
    log: &Object,
    entries: &mut BTreeMap<DdtKey, DdtLogRecord>,
) -> Result<(), DslError> {
    if header.length > LOG_BYTES_MAX {
        let source = DecodeError::BadValue {
            structure: "dedup log",
            field: "length",
            value: header.length,
        };
        return Err(log.malformed(source).into());
    }
    let mut block = vec![0; LOG_BLOCK as usize];
    for offset in (0..header.length).step_by(LOG_BLOCK as usize) {
        log.read(offset, &mut block)?;
        let records = log_records(&block).map_err(|source| log.malformed(source))?;
        let is_waiting = |record: &DdtLogRecord| {
            let moved = header.checkpoint.is_some_and(|done| record.key <= done);
            !moved
        };
        let waiting = records.into_iter().filter(is_waiting);
        entries.extend(waiting.map(|record| (record.key, record)));
    }
    Ok(())
}

/// What an entry counts for in a histogram.
///
/// `deflate_ratio` returns the deflated bytes for 512 bytes of a vdev.
pub fn entry_figures(
    key: DdtKey,
    entry: &DdtEntry,
    deflate_ratio: impl Fn(u64) -> u64,
) -> DdtStatistics {
    let mut sum = DdtStatistics::default();
    let copies = if key.uses_crypt() { 2 } else { 3 };
    for slot in entry.blocks() {
        sum.add(&slot_figures(key, slot, copies, &deflate_ratio));
    }
    sum
}

fn slot_figures(
    key: DdtKey,
    slot: &DdtPhys,
    copies: usize,
    deflate_ratio: &impl Fn(u64) -> u64,
) -> DdtStatistics {
    let deflated = slot.dvas[..copies].iter().map(|dva| {
        let units = dva.asize() >> 9;
        units.saturating_mul(deflate_ratio(dva.vdev().0))
    });
    let (logical, physical) = (key.logical_size(), key.physical_size());
    let allocated = deflated.fold(0, u64::saturating_add);
    let references = slot.references;
    DdtStatistics {
        blocks: 1,
        logical,
        physical,
        allocated,
        referenced_blocks: references,
        referenced_logical: logical.saturating_mul(references),
        referenced_physical: physical.saturating_mul(references),
        referenced_allocated: allocated.saturating_mul(references),
    }
}
