//! Freeing blocks that may have more references than one: clones and duplicates (format/2c 1, 6).
//!
//! A block of data may stand in the table of clones of its vdev, with the number of references
//! beyond the first. As long as it does, giving up a reference lowers that number and nothing is
//! freed.

use super::error::SyncError;
use super::syncer::Syncer;
use cenote_base::VdevId;
use cenote_dmu::zap::ZapValue;
use cenote_dmu::{Object, Zap};
use cenote_dsl::write::SyncContext;
use cenote_ondisk::brt::{self, BrtVdev, DIRECTORY_PREFIX};
use cenote_ondisk::{BlockPointer, ObjectType};
use std::collections::BTreeMap;

const CLONING: &str = "com.fudosecurity:block_cloning";
const CLONING_ENDIAN: &str = "com.truenas:block_cloning_endian";
const TABLE: ObjectType = ObjectType(0xC3);

/// The table of one vdev, open for a batch of frees.
struct CloneTable {
    object: Object,
    header: BrtVdev,
    entries: Zap,
}

impl Syncer {
    /// Whether freeing a block must ask a table first.
    pub(super) fn may_be_shared(&self, pointer: &BlockPointer) -> bool {
        let is_data = pointer.level().0 == 0 && !pointer.object_type().is_metadata();
        pointer.is_dedup() || (is_data && self.dsl.features().is_active(CLONING))
    }

    /// Frees the blocks that wait for this, unless they have other references.
    pub(super) fn settle_shared(&self, context: &SyncContext<'_>) -> Result<(), SyncError> {
        let waiting = std::mem::take(&mut *self.shared());
        let mut tables: BTreeMap<VdevId, Option<CloneTable>> = BTreeMap::new();
        for pointer in &waiting {
            // One that the tables do not know, since they were pruned, is like any other.
            if pointer.is_dedup() && self.dedup.give_up(pointer)? {
                continue;
            }
            let vdev = pointer.dva(0).vdev();
            if let std::collections::btree_map::Entry::Vacant(place) = tables.entry(vdev) {
                place.insert(CloneTable::open(context, vdev)?);
            }
            let table = tables.get_mut(&vdev).and_then(Option::as_mut);
            let is_kept = match table {
                Some(table) => table.give_up(context, pointer, self.deflated_size(pointer))?,
                None => false,
            };
            if !is_kept {
                self.free_now(pointer)?;
            }
        }
        for (vdev, table) in tables {
            if let Some(table) = table {
                table.store(context, vdev)?;
            }
        }
        self.dedup
            .settle(context, &|pointer| self.free_now(pointer))
    }

    fn deflated_size(&self, pointer: &BlockPointer) -> u64 {
        let of = |vdev| self.vdevs.deflate_ratio(vdev).unwrap_or(512);
        let sizes = pointer
            .dvas()
            .map(|dva| (dva.asize() >> 9) * of(dva.vdev()));
        sizes.sum()
    }
}

impl CloneTable {
    fn open(context: &SyncContext<'_>, vdev: VdevId) -> Result<Option<Self>, SyncError> {
        let key = format!("{DIRECTORY_PREFIX}{vdev}");
        let Some(id) = context.dsl.object_directory().object(&key)? else {
            return Ok(None);
        };
        let object = context.mos().object(id)?;
        let header = BrtVdev::decode(&object.dnode().bonus)?;
        let entries = context.mos().zap(header.entries)?;
        Ok(Some(Self {
            object,
            header,
            entries,
        }))
    }

    /// Gives up one reference; whether others keep the block.
    fn give_up(
        &mut self,
        context: &SyncContext<'_>,
        pointer: &BlockPointer,
        size: u64,
    ) -> Result<bool, SyncError> {
        let key = [pointer.dva(0).offset()];
        let Some(value) = self.entries.lookup_words(&key)? else {
            return Ok(false);
        };
        let count = brt::count(&value)?;
        if count == 0 {
            return Ok(false);
        }
        self.header.saved_bytes = self.header.saved_bytes.saturating_sub(size);
        if count > 1 {
            let value = match context.dsl.features().is_active(CLONING_ENDIAN) {
                true => ZapValue::from_u64(count - 1),
                false => ZapValue::from_bytes(&(count - 1).to_le_bytes()),
            };
            self.entries.update(context.tx, &key[..], &value)?;
            return Ok(true);
        }
        self.entries.remove(context.tx, &key[..])?;
        self.header.entry_count = self.header.entry_count.saturating_sub(1);
        self.header.used_bytes = self.header.used_bytes.saturating_sub(size);
        self.count_region(context, key[0] / self.header.region_size)?;
        Ok(true)
    }

    /// One entry less in a region.
    fn count_region(&self, context: &SyncContext<'_>, region: u64) -> Result<(), SyncError> {
        let mut bytes = [0; 2];
        self.object.read(2 * region, &mut bytes)?;
        let bytes = match self.header.big_endian {
            true => u16::from_be_bytes(bytes).saturating_sub(1).to_be_bytes(),
            false => u16::from_le_bytes(bytes).saturating_sub(1).to_le_bytes(),
        };
        Ok(self.object.write(context.tx, 2 * region, &bytes)?)
    }

    /// Stores the header, or takes an empty table away.
    fn store(self, context: &SyncContext<'_>, vdev: VdevId) -> Result<(), SyncError> {
        if self.header.entry_count > 0 {
            let bonus = self.header.encode().to_vec();
            return Ok(self.object.set_bonus(context.tx, TABLE, bonus)?);
        }
        context.mos().free(context.tx, self.header.entries)?;
        context.mos().free(context.tx, self.object.id())?;
        context.remove_directory_entry(&format!("{DIRECTORY_PREFIX}{vdev}"))?;
        context.feature_changed(CLONING, -1)?;
        if context.dsl.features().is_active(CLONING_ENDIAN) {
            context.feature_changed(CLONING_ENDIAN, -1)?;
        }
        Ok(())
    }
}
