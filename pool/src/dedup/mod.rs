//! Dedup tables: which blocks are stored already, and how many pointers share them (format/2c 3
//! to 5).
//!
//! Writing and freeing only change entries in memory. [`DedupTables::apply`] runs when the datasets
//! of a txg are written, and again after the metadata freed blocks. It puts the entries into the
//! table of their class, frees unreferenced blocks, and updates the statistics.

mod lost;
mod quota;
mod table;

pub(crate) use lost::ForgetLostFigures;

use crate::sync::SyncError;
use cenote_base::rt::{Mutex, MutexGuard, ranks};
use cenote_base::{Txg, VdevId};
use cenote_dmu::ObjectSet;
use cenote_dmu::zap::ZapValue;
use cenote_dsl::directory_keys as keys;
use cenote_dsl::write::SyncContext;
use cenote_dsl::{Dsl, DslError, entry_figures};
use cenote_io::{DedupError, DedupTable, Duplicate};
use cenote_ondisk::ddt::{
    DdtClass, DdtEntry, DdtKey, DdtPhys, DdtStatistics, HISTOGRAM_BUCKETS, histogram_from_words,
    histogram_to_words,
};
use cenote_ondisk::features;
use cenote_ondisk::wire::with_bits;
use cenote_ondisk::{BlockPointer, ChecksumKind, ObjectType};
use cenote_vdev::Vdevs;
use quota::Quota;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use table::{Changed, Table};

/// The dedup tables of a pool.
#[derive(Debug)]
pub(crate) struct DedupTables {
    // Weak, because the pipeline below both asks these tables.
    mos: Weak<ObjectSet>,
    dsl: Weak<Dsl>,
    vdevs: Arc<Vdevs>,
    /// By number of the checksum function.
    tables: Mutex<BTreeMap<u8, Table>, ranks::DedupTables>,
    quota: Quota,
}

type Histograms = BTreeMap<String, Vec<DdtStatistics>>;

impl DedupTables {
    pub(crate) fn new(mos: &Arc<ObjectSet>, dsl: &Arc<Dsl>, vdevs: &Arc<Vdevs>) -> Self {
        Self {
            mos: Arc::downgrade(mos),
            dsl: Arc::downgrade(dsl),
            vdevs: Arc::clone(vdevs),
            tables: Mutex::default(),
            quota: Quota::default(),
        }
    }

    fn mos(&self) -> Arc<ObjectSet> {
        let mos = self.mos.upgrade();
        mos.expect("the metadata of a pool stays open while it is written to")
    }

    fn dsl(&self) -> Arc<Dsl> {
        let dsl = self.dsl.upgrade();
        dsl.expect("the datasets of a pool stay open while it is written to")
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u8, Table>> {
        self.tables.lock()
    }

    /// Does something with the tables of a checksum function.
    fn with<T>(
        &self,
        kind: ChecksumKind,
        act: impl FnOnce(&mut Table, &Arc<ObjectSet>) -> Result<T, DslError>,
    ) -> Result<T, DslError> {
        let mos = self.mos();
        let mut tables = self.lock();
        let fast = self.dsl().features().get(features::FAST_DEDUP).is_some();
        let table = match tables.entry(kind as u8) {
            std::collections::btree_map::Entry::Occupied(found) => found.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(Table::open(&mos, kind, fast)?)
            }
        };
        act(table, &mos)
    }

    /// Gives up one reference; whether the table knows the block, so that it is not to be freed.
    pub(crate) fn give_up(&self, pointer: &BlockPointer) -> Result<bool, DslError> {
        self.count_anew(pointer, |references| references.checked_sub(1))
    }

    /// Counts one more reference to a block that was cloned; whether the table knows the block.
    pub(crate) fn share(&self, pointer: &BlockPointer) -> Result<bool, DslError> {
        self.count_anew(pointer, |references| Some(references.saturating_add(1)))
    }

    /// Changes the number of references to a block; whether the table knows it and they could be.
    fn count_anew(
        &self,
        pointer: &BlockPointer,
        change: impl FnOnce(u64) -> Option<u64>,
    ) -> Result<bool, DslError> {
        let Some(kind) = pointer.checksum_kind() else {
            return Ok(false);
        };
        self.with(kind, |table, mos| {
            if !table.exists && table.changed.is_empty() {
                return Ok(false);
            }
            let changed = table.entry(mos, DdtKey::of(pointer))?;
            let Some(slot) = slot_of(&mut changed.entry, pointer) else {
                return Ok(false);
            };
            let Some(references) = change(slot.references) else {
                return Ok(false);
            };
            slot.references = references;
            table.is_dirty = true;
            Ok(true)
        })
    }

    /// Stores all changed entries and hands blocks without references to `free`.
    pub(crate) fn apply(
        &self,
        context: &SyncContext<'_>,
        free: &dyn Fn(&BlockPointer) -> Result<(), DslError>,
    ) -> Result<(), SyncError> {
        let mut tables = self.lock();
        let mut histograms = Histograms::new();
        let mut gone = Vec::new();
        for table in tables.values_mut() {
            if !table.is_dirty {
                // Entries that were only looked at need not be kept, those of logs must.
                table.changed.retain(|_, changed| {
                    let is_known = changed.class.is_some() || changed.entry.references() > 0;
                    changed.counted.is_none() && is_known
                });
                continue;
            }
            for (key, mut changed) in std::mem::take(&mut table.changed) {
                for block in unreferenced(&mut changed.entry) {
                    free(&pointer_to(table.kind, key, &block))?;
                }
                if let DdtEntry::Flat { class_start, .. } = &mut changed.entry {
                    *class_start = context.seconds();
                }
                let class = match changed.entry.references() {
                    0 => None,
                    1 => Some(DdtClass::Unique),
                    _ => Some(DdtClass::Duplicate),
                };
                self.count(table, key, &changed, class, &mut histograms)?;
                table.store(context, key, &changed, class)?;
            }
            table.empty_logs(context)?;
            gone.extend(table.destroy_empty(context)?);
            table.is_dirty = false;
        }
        // The tables may come back in the other form.
        tables.retain(|_, table| table.exists);
        drop(tables);
        self.quota.forget();
        self.store_histograms(context, histograms, &gone)
    }

    /// Moves an entry's figures from where it was counted to where it is now.
    fn count(
        &self,
        table: &Table,
        key: DdtKey,
        changed: &Changed,
        class: Option<DdtClass>,
        histograms: &mut Histograms,
    ) -> Result<(), DslError> {
        let mut change = |class: DdtClass, entry: &DdtEntry, is_new: bool| {
            let name = table.name(class);
            if !histograms.contains_key(&name) {
                let known = self.histogram(&name)?;
                histograms.insert(name.clone(), known);
            }
            let figures = self.figures(key, entry);
            let bucket = figures.referenced_blocks.checked_ilog2();
            if let (Some(bucket), Some(buckets)) = (bucket, histograms.get_mut(&name)) {
                match is_new {
                    true => buckets[bucket as usize].add(&figures),
                    false => buckets[bucket as usize].subtract(&figures),
                }
            }
            Ok::<(), DslError>(())
        };
        if let (Some(old), Some(entry)) = (changed.class, &changed.counted) {
            change(old, entry, false)?;
        }
        if let Some(class) = class {
            change(class, &changed.entry, true)?;
        }
        Ok(())
    }

    fn histogram(&self, name: &str) -> Result<Vec<DdtStatistics>, DslError> {
        let empty = || vec![DdtStatistics::default(); HISTOGRAM_BUCKETS];
        let Some(id) = self
            .dsl()
            .object_directory()
            .object(keys::DEDUP_STATISTICS)?
        else {
            return Ok(empty());
        };
        let zap = self.mos().zap(id)?;
        let words = zap
            .lookup(name.as_bytes())?
            .and_then(|value| value.as_u64s());
        let buckets = words.map(|words| histogram_from_words(&words)).transpose();
        let buckets = buckets.map_err(|source| zap.object().malformed(source))?;
        Ok(buckets.unwrap_or_else(empty))
    }

    /// What an entry counts for.
    fn figures(&self, key: DdtKey, entry: &DdtEntry) -> DdtStatistics {
        entry_figures(key, entry, |vdev| {
            self.vdevs
                .shape()
                .deflate_ratio(VdevId(vdev))
                .unwrap_or(512)
        })
    }

    fn store_histograms(
        &self,
        context: &SyncContext<'_>,
        histograms: Histograms,
        gone: &[String],
    ) -> Result<(), SyncError> {
        if histograms.is_empty() && gone.is_empty() {
            return Ok(());
        }
        let known = self
            .dsl()
            .object_directory()
            .object(keys::DEDUP_STATISTICS)?;
        let id = match known {
            Some(id) => id,
            None => {
                let id = context.create_table(ObjectType::DDT_STATISTICS)?;
                context.set_directory_number(keys::DEDUP_STATISTICS, id.0)?;
                id
            }
        };
        let zap = self.mos().zap(id)?;
        // Also for a table that was empty before and whose statistics did not change now: OpenZFS
        // creates the table again later, and fails if its statistics exist already.
        for name in gone {
            if zap.lookup(name.as_bytes())?.is_some() {
                zap.remove(context.tx, name.as_bytes())?;
            }
        }
        for (name, buckets) in histograms {
            if gone.contains(&name) {
                continue;
            }
            let value = ZapValue::from_u64s(&histogram_to_words(&buckets));
            zap.update(context.tx, name.as_bytes(), &value)?;
        }
        context.dsl.forget_saved_space();
        Ok(())
    }
}

/// The slot of an entry that a pointer refers to.
fn slot_of<'a>(entry: &'a mut DdtEntry, pointer: &BlockPointer) -> Option<&'a mut DdtPhys> {
    let slots = match entry {
        DdtEntry::Flat { phys, .. } => std::slice::from_mut(phys),
        DdtEntry::Traditional(slots) => slots.as_mut_slice(),
    };
    slots.iter_mut().find(|slot| {
        slot.physical_birth.0 != 0
            && slot.dvas[0] == pointer.dva(0)
            && slot.physical_birth == pointer.physical_birth()
    })
}

/// The slot for blocks with so many copies.
fn slot_for(entry: &mut DdtEntry, copies: usize) -> &mut DdtPhys {
    match entry {
        DdtEntry::Flat { phys, .. } => phys,
        DdtEntry::Traditional(slots) => &mut slots[copies.clamp(1, 3)],
    }
}

/// Takes the unreferenced blocks out of an entry.
fn unreferenced(entry: &mut DdtEntry) -> Vec<DdtPhys> {
    let slots = match entry {
        DdtEntry::Flat { phys, .. } => std::slice::from_mut(phys),
        DdtEntry::Traditional(slots) => slots.as_mut_slice(),
    };
    let unused = slots
        .iter_mut()
        .filter(|slot| slot.physical_birth.0 != 0 && slot.references == 0);
    unused.map(std::mem::take).collect()
}

/// A pointer that is good for freeing an entry's block.
fn pointer_to(kind: ChecksumKind, key: DdtKey, block: &DdtPhys) -> BlockPointer {
    let mut pointer = BlockPointer::HOLE;
    for (index, dva) in block.dvas.iter().enumerate() {
        (pointer.words[2 * index], pointer.words[2 * index + 1]) = (dva.word0, dva.word1);
    }
    let mut prop = with_bits(0, 0, 39, key.prop & ((1 << 39) - 1));
    prop = with_bits(prop, 40, 8, kind as u64);
    prop = with_bits(prop, 48, 8, u64::from(ObjectType::PLAIN_FILE.0));
    prop = with_bits(prop, 61, 1, u64::from(key.uses_crypt()));
    pointer.words[6] = with_bits(prop, 63, 1, 1);
    pointer.words[10] = block.physical_birth.0;
    pointer.words[12..].copy_from_slice(&key.checksum);
    pointer
}

impl DedupTable for DedupTables {
    fn find(&self, pointer: &BlockPointer, copies: usize) -> Result<Duplicate, DedupError> {
        let Some(kind) = pointer.checksum_kind() else {
            return Ok(Duplicate::Unsuitable);
        };
        let key = DdtKey::of(pointer);
        let found = self.with(kind, |table, mos| {
            let entry = &mut table.entry(mos, key)?.entry;
            let is_flat = matches!(entry, DdtEntry::Flat { .. });
            let slot = *slot_for(entry, copies);
            if slot.physical_birth == Txg(0) {
                let is_new = entry.references() == 0;
                return Ok(match is_new && self.quota.is_reached(&self.dsl())? {
                    true => Duplicate::Unsuitable,
                    false => Duplicate::None,
                });
            }
            let dvas = if key.uses_crypt() { 2 } else { 3 };
            let have = slot.dvas[..dvas].iter().filter(|dva| dva.is_valid());
            Ok(match is_flat && have.count() < copies {
                true => Duplicate::Unsuitable,
                false => Duplicate::Stored {
                    dvas: slot.dvas,
                    birth: slot.physical_birth,
                },
            })
        });
        Ok(found?)
    }

    fn refer(&self, pointer: &BlockPointer, copies: usize) -> Result<(), DedupError> {
        let Some(kind) = pointer.checksum_kind() else {
            return Ok(());
        };
        self.vdevs.shape().note_shared(pointer);
        self.with(kind, |table, mos| {
            let changed = table.entry(mos, DdtKey::of(pointer))?;
            let slot = slot_for(&mut changed.entry, copies);
            if slot.physical_birth == Txg(0) {
                // The third may be salt and initialization vector, which are kept as they are.
                let word = |index: usize| pointer.words[index];
                for (index, dva) in slot.dvas.iter_mut().enumerate() {
                    (dva.word0, dva.word1) = (word(2 * index), word(2 * index + 1));
                }
                slot.physical_birth = pointer.physical_birth();
            }
            slot.references = slot.references.saturating_add(1);
            table.is_dirty = true;
            Ok(())
        })?;
        Ok(())
    }
}
