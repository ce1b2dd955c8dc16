//! What deduplication and block cloning save, as the pool's tables count it.
//!
//! Source: format/2c 3, 4.6 and 6.1. The object directory's `DDT-statistics` names a ZAP with a
//! histogram for each dedup table. Entries that wait in a dedup log are in no histogram and have
//! to be added by whoever loads the log. The totals of block cloning
//! stand in the bonus buffer of each vdev's table.

use crate::dsl::Dsl;
use crate::error::DslError;
use crate::object_directory::keys;
use cenote_base::ObjectId;
use cenote_dmu::Zap;
use cenote_ondisk::brt::BrtVdev;
use cenote_ondisk::ddt::{DdtStatistics, histogram_from_words};

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

/// The sums over the histograms of all dedup tables.
pub fn dedup_totals(dsl: &Dsl) -> Result<DdtStatistics, DslError> {
    let mut totals = DdtStatistics::default();
    for (_, histogram) in dedup_histograms(dsl)? {
        histogram.iter().for_each(|bucket| totals.add(bucket));
    }
    Ok(totals)
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
    for (_, id) in dedup_tables(dsl)? {
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
    let tables = dedup_tables(dsl)?;
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

/// All dedup tables by their names, which are those of their figures.
fn dedup_tables(dsl: &Dsl) -> Result<Vec<(String, ObjectId)>, DslError> {
    let mut tables = Vec::new();
    for (name, id) in tables_in(dsl.object_directory().zap())? {
        if is_table(&name) {
            tables.push((name, id));
            continue;
        }
        if is_log(&name) {
            continue;
        }
        // `DDT-sha256` is a directory of tables and logs.
        let found = tables_in(&Zap::open(dsl.mos().object(id)?)?)?;
        tables.extend(found.into_iter().filter(|(name, _)| is_table(name)));
    }
    Ok(tables)
}

fn is_table(name: &str) -> bool {
    name.contains("-zap-")
}

fn is_log(name: &str) -> bool {
    name.contains("-log-")
}

/// The entries of a directory that are about dedup tables.
fn tables_in(directory: &Zap) -> Result<Vec<(String, ObjectId)>, DslError> {
    let mut tables = Vec::new();
    for entry in directory.entries() {
        let entry = entry?;
        let name = entry.key.as_str().unwrap_or_default();
        let id = entry.value.as_u64().unwrap_or(0);
        if name.starts_with("DDT-") && name != keys::DEDUP_STATISTICS && id != 0 {
            tables.push((name.to_owned(), ObjectId(id)));
        }
    }
    Ok(tables)
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
    if !dsl.features().is_active("com.fudosecurity:block_cloning") {
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
