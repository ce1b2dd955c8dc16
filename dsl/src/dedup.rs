//! What deduplication and block cloning save, as the pool's tables count it.
//!
//! Source: format/2c 3, 4.6 and 6.1. The object directory's `DDT-statistics` names a ZAP with a
//! histogram for each dedup table. Entries that wait in a dedup log are in no histogram, so they
//! are added. The totals of block cloning are in the bonus buffer of each vdev's table.

use crate::dedup_log::{entry_figures, waiting_entries};
use crate::dsl::Dsl;
use crate::error::DslError;
use crate::object_directory::keys;
use crate::sharing::DedupFigures;
use cenote_base::ObjectId;
use cenote_dmu::Zap;
use cenote_ondisk::brt::BrtVdev;
use cenote_ondisk::ddt::{DdtLogRecord, DdtStatistics, HISTOGRAM_BUCKETS, histogram_from_words};
use cenote_ondisk::features;
use std::sync::Arc;

/// Bytes that sharing saves.
pub fn dedup_saved(totals: &DdtStatistics) -> u64 {
    totals.referenced_allocated.saturating_sub(totals.allocated)
}

/// The dedup ratio in hundredths; 100 without a table.
pub fn dedup_ratio(totals: &DdtStatistics) -> u64 {
    ratio(totals.referenced_allocated, totals.allocated)
}

/// `100 * whole / part`, or 100 when either is 0.
pub(crate) fn ratio(whole: u64, part: u64) -> u64 {
    if whole == 0 || part == 0 {
        return 100;
    }
    let ratio = u128::from(whole) * 100 / u128::from(part);
    u64::try_from(ratio).unwrap_or(u64::MAX)
}

/// The sums over all dedup tables and their logs.
pub fn dedup_totals(dsl: &Dsl) -> Result<DdtStatistics, DslError> {
    Ok(dsl.dedup_figures()?.totals())
}

impl Dsl {
    /// Bytes that dedup and cloning save.
    pub fn saved_space(&self) -> Result<u64, DslError> {
        let (generation, known) = {
            let sharing = self.sharing();
            (sharing.generation, sharing.saved)
        };
        if let Some(saved) = known {
            return Ok(saved);
        }
        let dedup = dedup_saved(&self.dedup_figures()?.totals());
        let saved = dedup.saturating_add(clone_totals(self)?.saved);
        let mut sharing = self.sharing();
        if sharing.generation == generation {
            sharing.saved = Some(saved);
        }
        Ok(saved)
    }

    /// The dedup tables in figures, their logs included.
    ///
    /// # Errors
    ///
    /// A table, its figures or its logs cannot be read.
    pub fn dedup_figures(&self) -> Result<Arc<DedupFigures>, DslError> {
        let (generation, known) = {
            let sharing = self.sharing();
            (sharing.generation, sharing.dedup.clone())
        };
        if let Some(figures) = known {
            return Ok(figures);
        }
        let figures = Arc::new(read_figures(self)?);
        let mut sharing = self.sharing();
        if sharing.generation == generation {
            sharing.dedup = Some(Arc::clone(&figures));
        }
        Ok(figures)
    }
}

/// All dedup tables in figures: they are read, and their logs are loaded.
fn read_figures(dsl: &Dsl) -> Result<DedupFigures, DslError> {
    let mut figures = DedupFigures {
        entries: 0,
        on_disk: 0,
        in_core: 0,
        histogram: vec![DdtStatistics::default(); HISTOGRAM_BUCKETS],
    };
    for (_, histogram) in dedup_histograms(dsl)? {
        for (sum, bucket) in figures.histogram.iter_mut().zip(&histogram) {
            sum.add(bucket);
        }
    }
    let objects = dedup_objects(dsl)?;
    for (_, id) in objects.tables {
        let table = dsl.mos().zap(id)?;
        let dnode = table.object().dnode();
        figures.entries = figures.entries.saturating_add(table.count());
        figures.on_disk = figures.on_disk.saturating_add(dnode.used_bytes());
        let blocks = dnode.block_id_max.0.saturating_add(1);
        let bytes = blocks.saturating_mul(dnode.data_block_size);
        figures.in_core = figures.in_core.saturating_add(bytes);
    }
    for logs in objects.logs {
        let waiting = waiting_entries(dsl.mos(), &logs)?;
        for record in waiting.values() {
            add_log(&mut figures, dsl, record);
        }
    }
    Ok(figures)
}

fn add_log(figures: &mut DedupFigures, dsl: &Dsl, record: &DdtLogRecord) {
    figures.entries += 1;
    figures.in_core += size_of::<DdtLogRecord>() as u64;
    let added = entry_figures(record.key, &record.entry, |vdev| dsl.deflate_ratio(vdev));
    if let Some(bucket) = added.referenced_blocks.checked_ilog2() {
        figures.histogram[bucket as usize].add(&added);
    }
}

/// The histogram of each dedup table by log2 of references, by the table's name
/// (`DDT-sha256-zap-unique`).
pub fn dedup_histograms(dsl: &Dsl) -> Result<Vec<(String, Vec<DdtStatistics>)>, DslError> {
    let Some(object) = dsl.object_directory().object(keys::DEDUP_STATISTICS)? else {
        return Ok(Vec::new());
    };
    let zap = dsl.mos().zap(object)?;
    let mut tables = Vec::new();
    for entry in zap.entries() {
        let entry = entry?;
        let name = entry.key.as_str().unwrap_or_default().to_owned();
        let words = entry.value.as_u64s().unwrap_or_default();
        let histogram = histogram_from_words(&words);
        let histogram = histogram.map_err(|source| DslError::decode(object, source))?;
        tables.push((name, histogram));
    }
    Ok(tables)
}

/// Bytes that the dedup tables take, their logs not included.
pub fn dedup_table_size(dsl: &Dsl) -> Result<u64, DslError> {
    let mut size = 0u64;
    for (_, id) in dedup_objects(dsl)?.tables {
        let used = dsl.mos().object(id)?.dnode().used_bytes();
        size = size.saturating_add(used);
    }
    Ok(size)
}

/// The names of dedup tables of which there are figures and nothing else.
///
/// OpenZFS takes a table away with its figures, and fails to make one whose figures are there.
pub fn lost_dedup_figures(dsl: &Dsl) -> Result<Vec<String>, DslError> {
    let Some(object) = dsl.object_directory().object(keys::DEDUP_STATISTICS)? else {
        return Ok(Vec::new());
    };
    let tables = dedup_objects(dsl)?.tables;
    let mut lost = Vec::new();
    for entry in dsl.mos().zap(object)?.entries() {
        let entry = entry?;
        let name = entry.key.as_str().unwrap_or_default();
        if is_table(name) && !tables.iter().any(|(table, _)| table == name) {
            lost.push(name.to_owned());
        }
    }
    Ok(lost)
}

/// The objects of dedup tables.
#[derive(Debug, Default)]
struct DedupObjects {
    /// The tables by their names, which are those of their figures.
    tables: Vec<(String, ObjectId)>,
    /// The logs of each checksum function.
    logs: Vec<Vec<ObjectId>>,
}

fn dedup_objects(dsl: &Dsl) -> Result<DedupObjects, DslError> {
    let mut objects = DedupObjects::default();
    for (name, id) in named_objects(dsl.object_directory().zap())? {
        if is_table(&name) {
            objects.tables.push((name, id));
            continue;
        }
        if is_log(&name) {
            continue;
        }
        // `DDT-sha256` is a directory of tables and logs.
        let (logs, others): (Vec<_>, Vec<_>) = named_objects(&dsl.mos().zap(id)?)?
            .into_iter()
            .partition(|(name, _)| is_log(name));
        objects
            .logs
            .push(logs.into_iter().map(|(_, id)| id).collect());
        let tables = others.into_iter().filter(|(name, _)| is_table(name));
        objects.tables.extend(tables);
    }
    Ok(objects)
}

fn is_table(name: &str) -> bool {
    name.contains("-zap-")
}

fn is_log(name: &str) -> bool {
    name.contains("-log-")
}

/// The objects that a directory names and that are about dedup tables.
fn named_objects(directory: &Zap) -> Result<Vec<(String, ObjectId)>, DslError> {
    let mut objects = Vec::new();
    for entry in directory.entries() {
        let entry = entry?;
        let name = entry.key.as_str().unwrap_or_default();
        let id = entry.value.as_u64().unwrap_or(0);
        if name.starts_with("DDT-") && name != keys::DEDUP_STATISTICS && id != 0 {
            objects.push((name.to_owned(), ObjectId(id)));
        }
    }
    Ok(objects)
}

/// The sums of block cloning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CloneTotals {
    /// Entries: blocks with more than one reference.
    pub entries: u64,
    /// The space that they take, in bytes.
    pub used: u64,
    /// The space that their further references would take.
    pub saved: u64,
}

impl CloneTotals {
    /// The cloning ratio in hundredths; 100 without clones.
    pub fn ratio(&self) -> u64 {
        ratio(self.used.saturating_add(self.saved), self.used)
    }
}

/// The sums over the cloning tables of all vdevs.
pub fn clone_totals(dsl: &Dsl) -> Result<CloneTotals, DslError> {
    let mut totals = CloneTotals::default();
    if !dsl.features().is_active(features::BLOCK_CLONING) {
        return Ok(totals);
    }
    for (_, object) in dsl.object_directory().clone_tables()? {
        let table = dsl.mos().object(object)?;
        let table = BrtVdev::decode(&table.dnode().bonus);
        let table = table.map_err(|source| DslError::decode(object, source))?;
        totals.entries = totals.entries.saturating_add(table.entry_count);
        totals.used = totals.used.saturating_add(table.used_bytes);
        totals.saved = totals.saved.saturating_add(table.saved_bytes);
    }
    Ok(totals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios() {
        let mut totals = DdtStatistics::default();
        assert_eq!(dedup_ratio(&totals), 100);
        (totals.allocated, totals.referenced_allocated) = (1000, 3500);
        assert_eq!((dedup_ratio(&totals), dedup_saved(&totals)), (350, 2500));
        totals.allocated = u64::MAX;
        assert_eq!(dedup_saved(&totals), 0, "nonsense saves nothing");
        let clones = CloneTotals {
            entries: 1,
            used: 100,
            saved: 50,
        };
        assert_eq!(clones.ratio(), 150);
    }
}
