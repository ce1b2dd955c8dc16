//! One vdev's table of cloned blocks: looked up, changed in memory, stored once for each group.

use crate::sync::SyncError;
use cenote_base::VdevId;
use cenote_dmu::zap::{NewZap, ZapValue};
use cenote_dmu::{NewObject, Object, Zap};
use cenote_dsl::DslError;
use cenote_dsl::write::SyncContext;
use cenote_ondisk::ObjectType;
use cenote_ondisk::brt::{self, BrtVdev, DIRECTORY_PREFIX, REGION_SIZE};
use cenote_ondisk::features;
use cenote_ondisk::zap::fat_header::{FLAG_HASH64, FLAG_UINT64_KEY};
use std::collections::BTreeMap;

/// Bytes of the blocks of counters.
const COUNTERS_BLOCK: u64 = 32 << 10;
/// log2 of the blocks of entries, direct and indirect ones.
const ENTRIES_SHIFT: u8 = 12;

/// An entry that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Entry {
    /// References beyond the first, as stored.
    stored: u64,
    /// The same as it is to be.
    count: u64,
    /// Bytes of space that the block is counted with.
    size: u64,
}

/// The objects of a table.
#[derive(Debug)]
struct Objects {
    counters: Object,
    entries: Zap,
}

/// The table of one vdev, which need not exist yet.
#[derive(Debug)]
pub(super) struct CloneTable {
    vdev: VdevId,
    objects: Option<Objects>,
    header: BrtVdev,
    /// Counters that were read, by region.
    regions: BTreeMap<u64, u16>,
    /// Entries that were read, by offset.
    entries: BTreeMap<u64, Entry>,
}

impl CloneTable {
    /// The table of `vdev` as it is stored.
    pub(super) fn open(context: &SyncContext<'_>, vdev: VdevId) -> Result<Self, SyncError> {
        let mut table = Self {
            vdev,
            objects: None,
            header: BrtVdev {
                region_size: REGION_SIZE,
                ..BrtVdev::default()
            },
            regions: BTreeMap::new(),
            entries: BTreeMap::new(),
        };
        let key = format!("{DIRECTORY_PREFIX}{vdev}");
        if let Some(id) = context.dsl.object_directory().object(&key)? {
            let counters = context.mos().object(id)?;
            table.header = BrtVdev::decode(&counters.dnode().bonus)?;
            let entries = context.mos().zap(table.header.entries)?;
            table.objects = Some(Objects { counters, entries });
        }
        Ok(table)
    }

    /// Entries in a region, as stored.
    fn region(&mut self, region: u64) -> Result<u16, SyncError> {
        if let Some(count) = self.regions.get(&region) {
            return Ok(*count);
        }
        let mut bytes = [0; 2];
        if let Some(objects) = &self.objects {
            objects.counters.read(2 * region, &mut bytes)?;
        }
        let count = match self.header.big_endian {
            true => u16::from_be_bytes(bytes),
            false => u16::from_le_bytes(bytes),
        };
        self.regions.insert(region, count);
        Ok(count)
    }

    /// The entry of the block at `offset`.
    fn entry(&mut self, offset: u64, size: u64) -> Result<&mut Entry, SyncError> {
        if !self.entries.contains_key(&offset) {
            let mut entry = Entry {
                size,
                ..Entry::default()
            };
            let has_some = self.region(offset / self.header.region_size)? > 0;
            if let Some(objects) = self.objects.as_ref().filter(|_| has_some)
                && let Some(value) = objects.entries.lookup_words(&[offset])?
            {
                entry.stored = brt::count(&value)?;
                entry.count = entry.stored;
            }
            self.entries.insert(offset, entry);
        }
        let entry = self.entries.get_mut(&offset);
        Ok(entry.expect("it was there or was just added"))
    }

    /// Counts one more reference.
    pub(super) fn gain(&mut self, offset: u64, size: u64) -> Result<(), SyncError> {
        let entry = self.entry(offset, size)?;
        // A stored count may say anything. Too high a count only keeps the block.
        entry.count = entry.count.saturating_add(1);
        Ok(())
    }

    /// Gives up a reference; whether others keep the block.
    pub(super) fn lose(&mut self, offset: u64, size: u64) -> Result<bool, SyncError> {
        let entry = self.entry(offset, size)?;
        let is_kept = entry.count > 0;
        entry.count = entry.count.saturating_sub(1);
        Ok(is_kept)
    }

    /// Stores what changed, or takes an empty table away; whether there was anything to do.
    pub(super) fn store(
        mut self,
        context: &SyncContext<'_>,
        vdev_size: u64,
    ) -> Result<bool, SyncError> {
        let mut changed = std::mem::take(&mut self.entries);
        changed.retain(|_, entry| entry.stored != entry.count);
        if changed.is_empty() {
            return Ok(false);
        }
        let objects = match self.objects.take() {
            Some(objects) => objects,
            None => self.create(context)?,
        };
        // The vdev may have grown since.
        let regions = vdev_size.div_ceil(self.header.region_size);
        self.header.regions = self.header.regions.max(regions);
        let is_native = context
            .dsl
            .features()
            .is_active(features::BLOCK_CLONING_ENDIAN);
        let mut regions: BTreeMap<u64, i64> = BTreeMap::new();
        for (offset, entry) in changed {
            let key = [offset];
            match entry.count {
                0 => drop(objects.entries.remove(context.tx, &key[..])?),
                count => {
                    let value = match is_native {
                        true => ZapValue::from_u64(count),
                        false => ZapValue::from_bytes(&count.to_le_bytes()),
                    };
                    objects.entries.update(context.tx, &key[..], &value)?;
                }
            }
            let change = self.count(entry);
            *regions.entry(offset / self.header.region_size).or_default() += change;
        }
        self.store_regions(context, &objects, &regions)?;
        self.finish(context, &objects)?;
        Ok(true)
    }

    /// Brings the sums up to date with an entry; returns how many entries more there are.
    fn count(&mut self, entry: Entry) -> i64 {
        let header = &mut self.header;
        let saved = |count: u64| entry.size.saturating_mul(count);
        header.saved_bytes = header
            .saved_bytes
            .saturating_add(saved(entry.count))
            .saturating_sub(saved(entry.stored));
        match (entry.stored, entry.count) {
            (0, _) => {
                header.entry_count = header.entry_count.saturating_add(1);
                header.used_bytes = header.used_bytes.saturating_add(entry.size);
                1
            }
            (_, 0) => {
                header.entry_count = header.entry_count.saturating_sub(1);
                header.used_bytes = header.used_bytes.saturating_sub(entry.size);
                -1
            }
            (_, _) => 0,
        }
    }

    fn store_regions(
        &mut self,
        context: &SyncContext<'_>,
        objects: &Objects,
        regions: &BTreeMap<u64, i64>,
    ) -> Result<(), SyncError> {
        for (region, change) in regions.iter().filter(|(_, change)| **change != 0) {
            let count = i64::from(self.region(*region)?).saturating_add(*change);
            // A region of 16 MiB has at most 32768 blocks.
            let count = u16::try_from(count.max(0)).unwrap_or(u16::MAX);
            let bytes = match self.header.big_endian {
                true => count.to_be_bytes(),
                false => count.to_le_bytes(),
            };
            objects.counters.write(context.tx, 2 * region, &bytes)?;
        }
        Ok(())
    }

    /// Makes the objects of the table, under its name.
    fn create(&mut self, context: &SyncContext<'_>) -> Result<Objects, SyncError> {
        let mut new = NewObject::new(ObjectType::ZAP_METADATA, 1 << ENTRIES_SHIFT);
        new.indirect_shift = ENTRIES_SHIFT;
        let entries = context.mos().allocate(context.tx, new)?;
        let shape = NewZap {
            normflags: 0,
            flags: FLAG_HASH64 | FLAG_UINT64_KEY,
            block_shift: u32::from(ENTRIES_SHIFT),
        };
        let entries = Zap::initialize(&entries, context.tx, shape)?;
        self.header.entries = entries.object().id();
        let bonus = self.header.encode().to_vec();
        let new = NewObject::new(ObjectType::UINT64_METADATA, COUNTERS_BLOCK)
            .with_bonus(ObjectType::UINT64_METADATA, bonus);
        let counters = context.mos().allocate(context.tx, new)?;
        let key = format!("{DIRECTORY_PREFIX}{}", self.vdev);
        context.set_directory_number(&key, counters.id().0)?;
        // The form of values is decided with the first table.
        let is_enabled = context
            .dsl
            .features()
            .get(features::BLOCK_CLONING_ENDIAN)
            .is_some();
        let is_first = !context.dsl.features().is_active(features::BLOCK_CLONING);
        let is_native = context
            .dsl
            .features()
            .is_active(features::BLOCK_CLONING_ENDIAN);
        if is_native || (is_first && is_enabled) {
            context.feature_changed(features::BLOCK_CLONING_ENDIAN, 1)?;
        }
        context.feature_changed(features::BLOCK_CLONING, 1)?;
        // What was looked up was not there.
        self.regions.clear();
        Ok(Objects { counters, entries })
    }

    /// Stores the header, or takes an empty table away.
    fn finish(&self, context: &SyncContext<'_>, objects: &Objects) -> Result<(), DslError> {
        if self.header.entry_count > 0 {
            let bonus = self.header.encode().to_vec();
            return Ok(objects.counters.set_bonus(
                context.tx,
                ObjectType::UINT64_METADATA,
                bonus,
            )?);
        }
        context.mos().free(context.tx, self.header.entries)?;
        context.mos().free(context.tx, objects.counters.id())?;
        context.remove_directory_entry(&format!("{DIRECTORY_PREFIX}{}", self.vdev))?;
        context.feature_changed(features::BLOCK_CLONING, -1)?;
        if context
            .dsl
            .features()
            .is_active(features::BLOCK_CLONING_ENDIAN)
        {
            context.feature_changed(features::BLOCK_CLONING_ENDIAN, -1)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> CloneTable {
        CloneTable {
            vdev: VdevId(0),
            objects: None,
            header: BrtVdev {
                region_size: REGION_SIZE,
                ..BrtVdev::default()
            },
            regions: BTreeMap::new(),
            entries: BTreeMap::new(),
        }
    }

    #[test]
    fn a_block_goes_with_its_last_reference() {
        let mut table = table();
        let lose = |table: &mut CloneTable| table.lose(4096, 512).expect("no disk is read");
        table.gain(4096, 512).expect("no disk is read");
        table.gain(4096, 512).expect("no disk is read");
        assert!(lose(&mut table) && lose(&mut table), "two clones");
        assert!(!lose(&mut table), "the original");
        assert!(!table.lose(8192, 512).expect("no disk is read"), "another");
    }

    #[test]
    fn an_absurd_count_keeps_the_block() {
        let mut table = table();
        let (stored, count, size) = (u64::MAX, u64::MAX, 512);
        let entry = Entry {
            stored,
            count,
            size,
        };
        table.entries.insert(4096, entry);
        table.gain(4096, 512).expect("no disk is read");
        assert!(table.lose(4096, 512).expect("no disk is read"));
    }

    #[test]
    fn sums_follow_the_entries() {
        let mut table = table();
        let entry = |stored, count| Entry {
            stored,
            count,
            size: 1000,
        };
        assert_eq!(table.count(entry(0, 3)), 1);
        assert_eq!(table.count(entry(0, 1)), 1);
        let sums = |table: &CloneTable| {
            let header = table.header;
            (header.entry_count, header.used_bytes, header.saved_bytes)
        };
        assert_eq!(sums(&table), (2, 2000, 4000));
        assert_eq!(table.count(entry(3, 2)), 0);
        assert_eq!(table.count(entry(1, 0)), -1);
        assert_eq!(sums(&table), (1, 1000, 2000));
    }
}
