//! Destroying snapshots (format/3a 7, "Destroy snapshot").
//!
//! The blocks that only one snapshot holds are in the deadlist of the next snapshot, in the entries
//! younger than the previous snapshot. They move to the pool's list of blocks to free; the rest of
//! the two deadlists is merged. The module above ([`super`]) has the drawing.
//!
//! The caller must make sure that no reader uses the snapshot: its blocks are reused soon.

use crate::dataset::Dataset;
use crate::deadlist::{Deadlist, DeadlistEntry, SpaceTriple, space_within};
use crate::error::DslError;
use crate::name::{DatasetName, is_hidden_component};
use crate::object_directory::keys;
use crate::property::table::Property;
use crate::write::blocks::accounting::{Part, SpaceChange, changed, signed};
use crate::write::blocks::dead::OpenDeadlists;
use crate::write::context::{SyncContext, SyncTask};
use cenote_base::{ObjectId, Txg};
use cenote_ondisk::dsl_dataset::fields;
use cenote_ondisk::dsl_dataset::{DslDataset, FLAG_DEFER_DESTROY};
use std::cmp::Reverse;
use std::collections::HashSet;

/// Directories of clones of clones that are followed.
const CLONES_MAX: usize = 1 << 20;

/// Destroys snapshots, all in one transaction group or none.
#[derive(Debug)]
pub struct DestroySnapshots {
    /// The snapshots; those that there are not are passed over.
    pub names: Vec<DatasetName>,
    /// Whether those that are held or cloned are to go once they are no more.
    pub defer: bool,
}

impl SyncTask for DestroySnapshots {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        for name in &self.names {
            if let Some(snapshot) = context.find_snapshot(name)? {
                context.check_destroy_snapshot(&snapshot, self.defer)?;
            }
        }
        Ok(())
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let mut lists = context.open_deadlists()?;
        for name in self.youngest_first(context)? {
            let Some(snapshot) = context.find_snapshot(&name)? else {
                continue;
            };
            match snapshot.hold_count()? > 0 || snapshot.phys().children > 1 {
                true => context.change_dataset(snapshot.id(), |phys| {
                    phys.flags |= FLAG_DEFER_DESTROY;
                })?,
                false => context.destroy_snapshot(&mut lists, &snapshot)?,
            }
        }
        context.close_deadlists(lists)
    }
}

impl DestroySnapshots {
    /// The snapshots that there are, each dataset's from the youngest to the oldest.
    ///
    /// In this order the deadlist of each moves whole into that of the first one that stays.
    /// From the oldest on, each would first be divided, entry by entry.
    fn youngest_first(&self, context: &SyncContext<'_>) -> Result<Vec<DatasetName>, DslError> {
        let mut found = Vec::with_capacity(self.names.len());
        for name in &self.names {
            if let Some(snapshot) = context.find_snapshot(name)? {
                let key = (
                    snapshot.directory().id(),
                    Reverse(snapshot.phys().creation_txg),
                );
                found.push((key, name.clone()));
            }
        }
        found.sort_by_key(|(key, _)| *key);
        Ok(found.into_iter().map(|(_, name)| name).collect())
    }
}

impl SyncContext<'_> {
    /// The snapshot with this name, if there is one.
    pub(crate) fn find_snapshot(&self, name: &DatasetName) -> Result<Option<Dataset>, DslError> {
        match self.snapshot_head(name) {
            Ok(head) => {
                let component = name.after_delimiter().unwrap_or_default();
                head.snapshot(component.as_bytes())
            }
            Err(DslError::NoSuchDataset { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn check_destroy_snapshot(&self, snapshot: &Dataset, defer: bool) -> Result<(), DslError> {
        let name = || snapshot.name().clone();
        // One of this very group is like any other; damage can claim a later one.
        if snapshot.phys().creation_txg > self.txg() {
            return Err(DslError::NextGroup { name: name() });
        }
        // What is to be moved or freed is read here: a group that cannot read it suspends the pool.
        for entry in self.deadlist_entries(snapshot.phys().deadlist)? {
            let list = self.mos().object(entry.bpobj)?;
            let block = list.dnode().data_block_size;
            let mut bytes = vec![0; usize::try_from(block).unwrap_or(0)];
            list.read(
                list.dnode().block_id_max.0.saturating_mul(block),
                &mut bytes,
            )?;
        }
        if defer {
            return self.check_remapped(snapshot);
        }
        if snapshot.hold_count()? > 0 {
            return Err(DslError::Held { name: name() });
        }
        if snapshot.phys().children > 1 {
            return Err(DslError::HasClones { name: name() });
        }
        self.check_remapped(snapshot)
    }

    /// Refuses what would have to move blocks between lists that a command made which is no more.
    pub(crate) fn check_remapped(&self, snapshot: &Dataset) -> Result<(), DslError> {
        match snapshot.extension_number(fields::REMAP_DEADLIST)? {
            Some(_) => Err(DslError::Remapped {
                name: snapshot.name().clone(),
            }),
            None => Ok(()),
        }
    }

    /// Destroys a snapshot with a deferred destroy, if it has no holds and clones any more.
    pub(crate) fn destroy_if_deferred(&self, id: ObjectId) -> Result<(), DslError> {
        if Some(id) == self.dsl.origin_snapshot() {
            return Ok(());
        }
        let snapshot = self.dsl.dataset_of(id)?;
        let phys = snapshot.phys();
        let waits = phys.flags & FLAG_DEFER_DESTROY != 0;
        match waits && phys.children == 1 && snapshot.hold_count()? == 0 {
            true => {
                let mut lists = self.open_deadlists()?;
                self.destroy_snapshot(&mut lists, &snapshot)?;
                self.close_deadlists(lists)
            }
            false => Ok(()),
        }
    }

    /// Destroys a snapshot that nothing holds or is a clone of.
    pub(crate) fn destroy_snapshot(
        &self,
        lists: &mut OpenDeadlists,
        snapshot: &Dataset,
    ) -> Result<(), DslError> {
        let (id, phys) = (snapshot.id(), snapshot.phys());
        let directory = snapshot.directory();
        let head = directory.phys().head_dataset;
        let head = head.ok_or(DslError::structure(directory.id(), "it has no head"))?;
        let next = phys.next_snapshot;
        let next = next.ok_or(DslError::structure(id, "a snapshot has no successor"))?;
        let (_, mut after) = self.dsl.read_dataset(next)?;
        let dead = lists.entries(self, after.deadlist)?;
        let is_counted = self.note_lost_snapshot(head, phys, dead)?;
        self.close_gap(snapshot, next, dead)?;
        self.forget_dataset_features(id)?;
        let free = self.move_to_free(lists, directory.id(), phys, after.deadlist)?;
        self.merge_deadlist(lists, after.deadlist, phys.deadlist)?;
        after.previous_snapshot = phys.previous_snapshot;
        after.previous_snapshot_txg = phys.previous_snapshot_txg;
        self.store_dataset(next, &after)?;
        if !is_counted {
            self.forget_key_of_clones(lists, directory.id(), phys.creation_txg)?;
        }
        if next == head {
            self.recount_unique(snapshot, head)?;
        } else {
            let (first, last) = (phys.previous_snapshot_txg, phys.creation_txg);
            self.gain_unique(lists, next, &mut after, (first, last))?;
            if !is_counted {
                let (_, head) = self.dsl.read_dataset(head)?;
                self.remove_deadlist_key(lists, head.deadlist, phys.creation_txg)?;
            }
        }
        self.scan_without(id, Some(next))?;
        let hidden = self.hidden_directory("$FREE")?;
        self.use_space(hidden, Part::Head, SpaceChange::from(free))?;
        self.erase_snapshot(snapshot, head)
    }

    /// Links the datasets before and after a snapshot to each other; the one before gets what it
    /// alone holds from now on.
    fn close_gap(
        &self,
        snapshot: &Dataset,
        next: ObjectId,
        dead: &[DeadlistEntry],
    ) -> Result<(), DslError> {
        let phys = snapshot.phys();
        let Some(previous) = phys.previous_snapshot else {
            return Ok(());
        };
        let (_, mut before) = self.dsl.read_dataset(previous)?;
        if before.next_snapshot != Some(snapshot.id()) {
            // The oldest of a clone.
            return self.replace_next_clone(previous, &before, Some(snapshot.id()), Some(next));
        }
        before.next_snapshot = Some(next);
        let (first, last) = (before.previous_snapshot_txg, phys.previous_snapshot_txg);
        let gained = space_within(dead, first, last);
        before.unique_bytes = changed(before.unique_bytes, signed(gained.used));
        self.store_dataset(previous, &before)
    }

    /// Moves what a snapshot alone holds from its successor's deadlist to the pool's list of
    /// blocks that are to be freed.
    fn move_to_free(
        &self,
        lists: &mut OpenDeadlists,
        directory: ObjectId,
        phys: &DslDataset,
        deadlist: ObjectId,
    ) -> Result<SpaceTriple, DslError> {
        let key = keys::FREE_BPOBJ;
        let list = self.dsl.object_directory().object(key)?;
        let list = list.ok_or(DslError::MissingEntry { key })?;
        let freed = self.move_dead_after(lists, deadlist, phys.previous_snapshot_txg, list)?;
        let change = SpaceChange::from(freed).negated();
        self.use_space(directory, Part::Snapshots, change)?;
        Ok(freed)
    }

    /// Gives a snapshot what it alone holds after the loss of the one before it: the blocks of
    /// that time that its successor does not have.
    fn gain_unique(
        &self,
        lists: &mut OpenDeadlists,
        id: ObjectId,
        phys: &mut DslDataset,
        (after, last): (Txg, Txg),
    ) -> Result<(), DslError> {
        let next = phys.next_snapshot;
        let next = next.ok_or(DslError::structure(id, "a snapshot has no successor"))?;
        let (_, next) = self.dsl.read_dataset(next)?;
        let gained = space_within(lists.entries(self, next.deadlist)?, after, last);
        phys.unique_bytes = changed(phys.unique_bytes, signed(gained.used));
        self.store_dataset(id, phys)
    }

    /// Recomputes a head's unique bytes after its previous snapshot changed.
    fn recount_unique(&self, snapshot: &Dataset, head: ObjectId) -> Result<(), DslError> {
        let (_, mut phys) = self.dsl.read_dataset(head)?;
        let before = match phys.previous_snapshot {
            Some(previous) => self.dsl.read_dataset(previous)?.1.referenced_bytes,
            None => 0,
        };
        let dead = Deadlist::totals_of(self.dsl, phys.deadlist)?;
        let shared = before.saturating_sub(dead.used);
        let old = phys.unique_bytes;
        phys.unique_bytes = phys.referenced_bytes.saturating_sub(shared);
        self.store_dataset(head, &phys)?;
        let directory = snapshot.directory();
        let reserved = directory
            .head()?
            .map(|head| head.stored_number(Property::RefReservation));
        let reserved = reserved.transpose()?.unwrap_or(0);
        let held = |unique: u64| signed(reserved.saturating_sub(unique));
        let change = SpaceChange::of_used(held(phys.unique_bytes) - held(old));
        self.use_space(directory.id(), Part::Refreservation, change)
    }

    /// Takes the key of a lost snapshot out of the deadlists of the heads of all clones that were
    /// made after it, and of their clones. Snapshots may keep it: nothing new comes to them. So may
    /// a head with a bookmark of it that counts.
    pub(crate) fn forget_key_of_clones(
        &self,
        lists: &mut OpenDeadlists,
        directory: ObjectId,
        txg: Txg,
    ) -> Result<(), DslError> {
        let mut stack = vec![directory];
        let mut seen = HashSet::new();
        while let Some(id) = stack.pop() {
            if !seen.insert(id) || seen.len() > CLONES_MAX {
                return Err(DslError::structure(id, "it is a clone of itself"));
            }
            let Some(clones) = self.directory(id)?.clones else {
                continue;
            };
            for entry in self.mos().zap(clones)?.entries() {
                let problem = "an entry is no clone";
                let head = entry?.value.as_u64();
                let head = ObjectId(head.ok_or(DslError::structure(clones, problem))?);
                let (_, phys) = self.dsl.read_dataset(head)?;
                if self.origin_txg(phys.directory)? > txg {
                    if !self.counts_since(head, txg)? {
                        self.remove_deadlist_key(lists, phys.deadlist, txg)?;
                    }
                    stack.push(phys.directory);
                }
            }
        }
        Ok(())
    }

    /// Removes a snapshot's name and what hangs on it.
    fn erase_snapshot(&self, snapshot: &Dataset, head: ObjectId) -> Result<(), DslError> {
        let (id, phys) = (snapshot.id(), snapshot.phys());
        let directory = snapshot.directory().id();
        let name = snapshot.name().after_delimiter().unwrap_or_default();
        let (_, head_phys) = self.dsl.read_dataset(head)?;
        let names = head_phys.snapshot_names;
        let names = names.ok_or(DslError::structure(head, "a head has no snapshot names"))?;
        self.remove_entry(names, name.as_bytes())?;
        self.note_snapshots_changed(directory)?;
        if !is_hidden_component(name.as_bytes()) {
            self.change_counts(Some(directory), 0, -1)?;
        }
        self.forget_boot_file_system(id)?;
        let tables = [phys.next_clones, phys.properties, phys.holds];
        for table in tables.into_iter().flatten() {
            self.destroy_object(table)?;
        }
        self.dsl.forget_dataset(id);
        self.destroy_extensible(id)
    }
}
