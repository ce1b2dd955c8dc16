//! What deduplication and block cloning save, as the pool's tables count it.
//!
//! Source: format/2c 3, 4.6 and 6.1. The object directory's `DDT-statistics` names a ZAP with a
//! histogram for each dedup table: 64 buckets of 8 numbers. Entries that wait in a dedup log are
//! in no histogram and are added from the log by whoever loads it. The totals of block cloning
//! stand in the bonus buffer of each vdev's table.

use crate::dsl::Dsl;
use crate::error::DslError;
use crate::object_directory::keys;
use cenote_base::ObjectId;
use cenote_ondisk::wire;

const BUCKETS: usize = 64;
const FIELDS: usize = 8;

/// The sums of one or all dedup tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DedupTotals {
    /// Different blocks.
    pub blocks: u64,
    /// Their size before compression, in bytes.
    pub logical: u64,
    /// Their size after compression.
    pub physical: u64,
    /// The space that they take.
    pub allocated: u64,
    /// References to them.
    pub references: u64,
    /// What the references would be before compression.
    pub referenced_logical: u64,
    /// After compression.
    pub referenced_physical: u64,
    /// The space that they would take.
    pub referenced_allocated: u64,
}

impl DedupTotals {
    fn add_bucket(&mut self, bucket: &[u64]) {
        let fields = [
            &mut self.blocks,
            &mut self.logical,
            &mut self.physical,
            &mut self.allocated,
            &mut self.references,
            &mut self.referenced_logical,
            &mut self.referenced_physical,
            &mut self.referenced_allocated,
        ];
        for (field, value) in fields.into_iter().zip(bucket) {
            *field = field.saturating_add(*value);
        }
    }

    /// Adds other totals.
    pub fn add(&mut self, other: &Self) {
        self.add_bucket(&[
            other.blocks,
            other.logical,
            other.physical,
            other.allocated,
            other.references,
            other.referenced_logical,
            other.referenced_physical,
            other.referenced_allocated,
        ]);
    }

    /// Bytes that sharing saves.
    pub fn saved(&self) -> u64 {
        self.referenced_allocated.saturating_sub(self.allocated)
    }

    /// The dedup ratio in hundredths; 100 without a table.
    pub fn ratio(&self) -> u64 {
        ratio(self.referenced_allocated, self.allocated)
    }
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
pub fn dedup_totals(dsl: &Dsl) -> Result<DedupTotals, DslError> {
    let mut totals = DedupTotals::default();
    for (_, table) in dedup_tables(dsl)? {
        totals.add(&table);
    }
    Ok(totals)
}

/// The sums of each dedup table, by the table's name (`DDT-sha256-zap-unique`).
pub fn dedup_tables(dsl: &Dsl) -> Result<Vec<(String, DedupTotals)>, DslError> {
    let Some(object) = dsl.object_directory().object(keys::DEDUP_STATISTICS)? else {
        return Ok(Vec::new());
    };
    let zap = dsl.mos().zap(object)?;
    let mut tables = Vec::new();
    for entry in zap.entries() {
        let entry = entry?;
        let (Some(name), Some(words)) = (entry.key.as_str(), entry.value.as_u64s()) else {
            continue;
        };
        let mut totals = DedupTotals::default();
        for bucket in words.chunks_exact(FIELDS).take(BUCKETS) {
            totals.add_bucket(bucket);
        }
        tables.push((name.to_owned(), totals));
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
        let [entries, used, saved] = clone_table(dsl, object)?;
        totals.entries = totals.entries.saturating_add(entries);
        totals.used = totals.used.saturating_add(used);
        totals.saved = totals.saved.saturating_add(saved);
    }
    Ok(totals)
}

/// Words 3, 5 and 6 of a table's bonus buffer: entries, space used, space saved.
fn clone_table(dsl: &Dsl, object: ObjectId) -> Result<[u64; 3], DslError> {
    let table = dsl.mos().object(object)?;
    let bonus = &table.dnode().bonus;
    let word = |index: usize| {
        wire::u64_le(bonus, 8 * index, "block cloning table")
            .map_err(|source| DslError::decode(object, source))
    };
    Ok([word(3)?, word(5)?, word(6)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios() {
        assert_eq!(DedupTotals::default().ratio(), 100);
        let mut totals = DedupTotals::default();
        totals.add_bucket(&[1, 0, 0, 1000, 3, 0, 0, 3500]);
        assert_eq!((totals.ratio(), totals.saved()), (350, 2500));
        totals.add_bucket(&[0, 0, 0, u64::MAX, 0, 0, 0, 0]);
        assert_eq!(totals.saved(), 0, "nonsense saves nothing");
        let clones = CloneTotals {
            entries: 1,
            used: 100,
            saved: 50,
        };
        assert_eq!(clones.ratio(), 150);
    }
}
