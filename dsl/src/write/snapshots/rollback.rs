//! Rolling back to the newest snapshot (format/3a 7, "Rollback").
//!
//! The head gets the snapshot's root and an empty deadlist: it has all that the snapshot has. The
//! blocks written since the snapshot are freed from the head's old root, like those of a destroyed
//! dataset. Blocks that the head freed since are shared by snapshot and head again.
//!
//! The head must not be open for writing, since an open object set has its tree in memory. The
//! caller waits for operations that are under way, syncs, closes the head
//! ([`Dsl::close_head`](crate::Dsl::close_head)), runs the task and opens the head again. Mounts
//! then get the new object set and drop their caches of the old one.

use crate::dataset::Dataset;
use crate::deadlist::{Deadlist, SpaceTriple};
use crate::error::DslError;
use crate::name::DatasetName;
use crate::property::table::Property;
use crate::write::blocks::accounting::{Part, SpaceChange, signed};
use crate::write::context::{SyncContext, SyncTask};
use cenote_base::Txg;
use cenote_ondisk::dsl_dataset::{DslDataset, FLAG_INCONSISTENT};

/// Makes a dataset what its newest snapshot is.
#[derive(Debug)]
pub struct RollbackDataset {
    /// The snapshot, which must be the newest one of its dataset.
    pub snapshot: DatasetName,
}

impl RollbackDataset {
    fn datasets(&self, context: &SyncContext<'_>) -> Result<(Dataset, Dataset), DslError> {
        let snapshot = context.dsl.dataset(&self.snapshot)?;
        match snapshot.is_snapshot() {
            true => Ok((context.dsl.dataset(&self.snapshot.dataset())?, snapshot)),
            false => Err(DslError::NotASnapshot {
                name: self.snapshot.clone(),
            }),
        }
    }
}

impl SyncTask for RollbackDataset {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let (head, snapshot) = self.datasets(context)?;
        let name = || self.snapshot.clone();
        let txg = snapshot.phys().creation_txg;
        let mut bookmarks = context.stored_bookmarks(head.id())?;
        bookmarks.retain(|bookmark| bookmark.phys.creation_txg > txg);
        if snapshot.phys().next_snapshot != Some(head.id()) || !bookmarks.is_empty() {
            return Err(DslError::MoreRecent { name: name() });
        }
        if context.dsl.is_head_in_use(head.id()) {
            let name = head.name().clone();
            return Err(DslError::Busy { name });
        }
        if txg >= context.txg() {
            return Err(DslError::NextGroup { name: name() });
        }
        context.deadlist_entries(head.phys().deadlist)?;
        head.check_refquota(snapshot.phys().referenced_bytes)?;
        // Until the blocks are freed they take space beside the whole reservation.
        let reserved = head.stored_number(Property::RefReservation)?;
        let needed = reserved.min(head.phys().unique_bytes);
        match needed > head.directory().available()? {
            true => Err(DslError::NoSpaceFor { name: name() }),
            false => Ok(()),
        }
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let (head, snapshot) = self.datasets(context)?;
        context.roll_back(&head, &snapshot)?;
        context.clear_copied_log(head.id())
    }
}

impl SyncContext<'_> {
    /// Makes a head what its newest snapshot is.
    pub(crate) fn roll_back(&self, head: &Dataset, snapshot: &Dataset) -> Result<(), DslError> {
        let (id, directory) = (head.id(), head.directory().id());
        let (old, new) = (head.phys(), snapshot.phys());
        self.drop_livelist(directory)?;
        let dead = Deadlist::open(self.dsl, old.deadlist)?;
        let own = own_space(old, new, dead.totals());
        let reserved = head.stored_number(Property::RefReservation)?;
        let held = signed(reserved.min(old.unique_bytes));
        self.use_space(directory, Part::Refreservation, SpaceChange::of_used(held))?;
        // The log's blocks are charged to no dataset.
        self.free_log_of(head)?;
        self.free_tree(head, own)?;
        let back = dead.space_after(self.origin_txg(directory)?);
        let back = signed(back.unwrap_or_default().used);
        self.move_space(directory, back, Part::Snapshots, Part::Head)?;
        let deadlist = self.clone_deadlist(old.deadlist, Txg(u64::MAX))?;
        self.destroy_deadlist(old.deadlist)?;
        self.change_dataset(snapshot.id(), |phys| phys.unique_bytes = 0)?;
        self.store_dataset(
            id,
            &DslDataset {
                deadlist,
                referenced_bytes: new.referenced_bytes,
                compressed_bytes: new.compressed_bytes,
                uncompressed_bytes: new.uncompressed_bytes,
                unique_bytes: 0,
                flags: old.flags & !FLAG_INCONSISTENT,
                block_pointer: new.block_pointer,
                ..old.clone()
            },
        )?;
        self.replace_dataset_features(id, snapshot.id())?;
        self.recount_bookmarks(id, new.creation_txg, SpaceTriple::default())?;
        self.dsl.objsets.forget(id);
        Ok(())
    }
}

/// What a head has and its previous snapshot has not.
fn own_space(head: &DslDataset, snapshot: &DslDataset, dead: SpaceTriple) -> SpaceChange {
    let more = |now: u64, before: u64, dead: u64| signed(now) - signed(before) + signed(dead);
    SpaceChange {
        used: more(head.referenced_bytes, snapshot.referenced_bytes, dead.used),
        compressed: more(
            head.compressed_bytes,
            snapshot.compressed_bytes,
            dead.compressed,
        ),
        uncompressed: more(
            head.uncompressed_bytes,
            snapshot.uncompressed_bytes,
            dead.uncompressed,
        ),
    }
}
