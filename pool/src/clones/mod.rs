//! Blocks with several references: clones, and their tables (format/2c 1 and 6).
//!
//! A cloned block is in the table of its vdev, with the number of references beyond the first.
//! While a group's datasets are written, gained and lost references are only collected. Then the
//! gained ones are counted, and after them the lost: a block is freed when it loses its last
//! reference. In this order one group may clone a block and free the original. References of
//! deduplicated blocks are counted in the dedup table.

mod table;

use crate::sync::SyncError;
use cenote_base::VdevId;
use cenote_dsl::DslError;
use cenote_dsl::write::SyncContext;
use cenote_ondisk::BlockPointer;
use std::collections::BTreeMap;
use table::CloneTable;

/// What the tables ask of the pool.
pub(crate) trait Referrer {
    /// Counts one more reference to a deduplicated block; false if its table does not know it.
    fn refer(&self, pointer: &BlockPointer) -> Result<bool, DslError>;

    /// Gives up a reference to a deduplicated block; false if its table does not know it.
    fn give_up(&self, pointer: &BlockPointer) -> Result<bool, DslError>;

    /// Frees a block that has no reference left.
    fn free(&self, pointer: &BlockPointer) -> Result<(), DslError>;

    /// Bytes of space that a block is counted with.
    fn deflated_size(&self, pointer: &BlockPointer) -> u64;

    /// Bytes of a vdev in whole metaslabs: the most that its table may cover. (OpenZFS refuses
    /// a pool whose table covers more.)
    fn vdev_size(&self, vdev: VdevId) -> u64;
}

/// Counts the references that were gained, then those that were lost, and frees blocks without.
///
/// # Errors
/// If a table is damaged or cannot be read.
pub(crate) fn apply(
    context: &SyncContext<'_>,
    pool: &dyn Referrer,
    gained: &[BlockPointer],
    lost: &[BlockPointer],
) -> Result<(), SyncError> {
    let mut tables = Tables {
        context,
        open: BTreeMap::new(),
    };
    for pointer in gained {
        // One that the table does not know, since that was pruned, is like any other.
        if pointer.is_dedup() && pool.refer(pointer)? {
            continue;
        }
        let (vdev, offset) = place(pointer);
        tables.of(vdev)?.gain(offset, pool.deflated_size(pointer))?;
    }
    for pointer in lost {
        if pointer.is_dedup() && pool.give_up(pointer)? {
            continue;
        }
        let (vdev, offset) = place(pointer);
        if !tables.of(vdev)?.lose(offset, pool.deflated_size(pointer))? {
            pool.free(pointer)?;
        }
    }
    let mut has_changed = false;
    for (vdev, table) in tables.open {
        has_changed |= table.store(context, pool.vdev_size(vdev))?;
    }
    if has_changed {
        context.dsl.forget_saved_space();
    }
    Ok(())
}

/// What identifies a block in the tables.
fn place(pointer: &BlockPointer) -> (VdevId, u64) {
    let dva = pointer.dva(0);
    (dva.vdev(), dva.offset())
}

/// The tables that a batch needs.
struct Tables<'a> {
    context: &'a SyncContext<'a>,
    open: BTreeMap<VdevId, CloneTable>,
}

impl Tables<'_> {
    fn of(&mut self, vdev: VdevId) -> Result<&mut CloneTable, SyncError> {
        Ok(match self.open.entry(vdev) {
            std::collections::btree_map::Entry::Occupied(found) => found.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(CloneTable::open(self.context, vdev)?)
            }
        })
    }
}
