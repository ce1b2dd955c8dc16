//! Making snapshots (format/3a 7, "Snapshot").
//!
//! The task runs after all dirty heads of its group are written, so a head's root is that of
//! everything up to this group, and a snapshot is nothing but another dataset with that root: no
//! block is touched. From here on whatever the head gives up is older than its previous snapshot
//! and goes to the head's new deadlist, while the old one becomes the snapshot's.
//!
//! A head that is open for writing is not told: it reads where its previous snapshot is with each
//! sync. Its blocks of this group are the snapshot's, so it must not be written in it once more.

use crate::dataset::Dataset;
use crate::error::DslError;
use crate::name::{DatasetName, NameKind, is_hidden_component};
use crate::property::table::Property;
use crate::write::blocks::accounting::{Part, SpaceChange, signed};
use crate::write::context::{SyncContext, SyncTask};
use crate::write::pool::metadata::number_key;
use crate::write::properties::Setting;
use cenote_base::{Guid, ObjectId};
use cenote_ondisk::ObjectType;
use cenote_ondisk::dsl_dataset::fields;
use cenote_ondisk::dsl_dataset::{DslDataset, FLAG_UNIQUE_ACCURATE, FSID_BITS};
use std::collections::HashSet;

/// Makes snapshots of several datasets, all in one transaction group or none.
#[derive(Debug)]
pub struct CreateSnapshots {
    /// The snapshots, at most one of each dataset.
    pub names: Vec<DatasetName>,
    /// Properties set on each of them.
    pub properties: Vec<Setting>,
}

impl SyncTask for CreateSnapshots {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let mut heads = HashSet::new();
        let mut directories = Vec::new();
        for name in &self.names {
            let head = context.snapshot_head(name)?;
            if !heads.insert(head.id()) {
                let name = name.clone();
                return Err(DslError::SnapshotsOfSame { name });
            }
            context.check_new_snapshot(&head, name)?;
            directories.push(head.directory().id());
        }
        context.check_limits_of(directories, 0, 1)
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        for name in &self.names {
            let head = context.snapshot_head(name)?;
            let component = name.after_delimiter().unwrap_or_default();
            let id = context.create_snapshot(&head, component.as_bytes())?;
            if !self.properties.is_empty() {
                let snapshot = context.dsl.dataset_of(id)?;
                context.apply_snapshot_settings(&snapshot, &self.properties)?;
            }
        }
        Ok(())
    }
}

impl SyncContext<'_> {
    /// The head of which `name` is to be a snapshot.
    pub(crate) fn snapshot_head(&self, name: &DatasetName) -> Result<Dataset, DslError> {
        if name.kind() != NameKind::Snapshot {
            let name = name.clone();
            return Err(DslError::NotASnapshot { name });
        }
        self.dsl.dataset(&name.dataset())
    }

    /// Refuses a snapshot that cannot be made.
    pub(crate) fn check_new_snapshot(
        &self,
        head: &Dataset,
        name: &DatasetName,
    ) -> Result<(), DslError> {
        let component = name.after_delimiter().unwrap_or_default();
        if head.snapshot(component.as_bytes())?.is_some() {
            let name = name.clone();
            return Err(DslError::DatasetExists { name });
        }
        if head.is_inconsistent() {
            let name = head.name().clone();
            return Err(DslError::Busy { name });
        }
        if head.phys().previous_snapshot_txg >= self.txg() {
            let name = head.name().clone();
            return Err(DslError::NextGroup { name });
        }
        self.deadlist_entries(head.phys().deadlist)?;
        // What the head has for itself it shares from now on, and its reservation is whole again.
        let reserved = head.stored_number(Property::RefReservation)?;
        let needed = reserved.min(head.phys().unique_bytes);
        let room = head.directory().available()?;
        let is_full = self.dsl.root()?.available()? == 0;
        match is_full || needed > room {
            true => Err(DslError::NoSpaceFor { name: name.clone() }),
            false => Ok(()),
        }
    }

    /// Makes a snapshot of a head as the group being written leaves it.
    pub(crate) fn create_snapshot(
        &self,
        head: &Dataset,
        component: &[u8],
    ) -> Result<ObjectId, DslError> {
        let (directory, head_id) = (head.directory().id(), head.id());
        let (_, mut phys) = self.dsl.read_dataset(head_id)?;
        let snapshot = DslDataset {
            next_snapshot: Some(head_id),
            snapshot_names: None,
            children: 1,
            creation_time: self.seconds(),
            creation_txg: self.txg(),
            // The snapshot has no unique blocks yet: the head refers to all of them.
            unique_bytes: 0,
            fsid_guid: self.random_guid()? & ((1 << FSID_BITS) - 1),
            guid: Guid(self.random_guid()?),
            next_clones: None,
            properties: None,
            holds: None,
            ..phys.clone()
        };
        let bonus = snapshot.encode().to_vec();
        let id = self.create_bonus_object(ObjectType::DSL_DATASET, bonus)?;
        self.dsl.forget_dataset(id);
        self.copy_dataset_features(head_id, id)?;
        self.give_snapshot_fields(head, id)?;
        if let Some(previous) = phys.previous_snapshot {
            self.put_between(previous, id, head_id)?;
        }
        let reserved = head.stored_number(Property::RefReservation)?;
        let shared = signed(reserved.min(phys.unique_bytes));
        self.use_space(
            directory,
            Part::Refreservation,
            SpaceChange::of_used(shared),
        )?;
        phys.deadlist = self.next_deadlist(&phys)?;
        phys.previous_snapshot = Some(id);
        phys.previous_snapshot_txg = self.txg();
        phys.unique_bytes = 0;
        phys.flags |= FLAG_UNIQUE_ACCURATE;
        self.store_dataset(head_id, &phys)?;
        let names = phys.snapshot_names;
        let names = names.ok_or(DslError::structure(head_id, "a head has no snapshot names"))?;
        self.set_number(names, component, id.0)?;
        self.scan_snapshot(head_id, id)?;
        self.note_snapshots_changed(directory)?;
        if !is_hidden_component(component) {
            self.change_counts(Some(directory), 0, 1)?;
        }
        Ok(id)
    }

    /// Extension fields of a new snapshot besides the features.
    fn give_snapshot_fields(&self, head: &Dataset, id: ObjectId) -> Result<(), DslError> {
        if head.directory().crypto_key()?.is_some() {
            self.set_extension(id, fields::IVSET_GUID, self.random_guid()?)?;
        }
        if let Some(list) = head.extension_number(fields::REMAP_DEADLIST)? {
            self.set_extension(id, fields::REMAP_DEADLIST, list)?;
            self.remove_entry(head.id(), fields::REMAP_DEADLIST.as_bytes())?;
        }
        Ok(())
    }

    /// Updates the previous snapshot of a dataset: there is a new one between the two.
    fn put_between(
        &self,
        previous: ObjectId,
        between: ObjectId,
        after: ObjectId,
    ) -> Result<(), DslError> {
        let (_, mut phys) = self.dsl.read_dataset(previous)?;
        if phys.next_snapshot == Some(after) {
            phys.next_snapshot = Some(between);
            return self.store_dataset(previous, &phys);
        }
        // The first snapshot of a clone: its origin knows the oldest dataset of each clone.
        self.replace_next_clone(previous, &phys, Some(after), Some(between))
    }

    /// Takes a dataset out of a snapshot's table of clones, and puts another into it.
    pub(crate) fn replace_next_clone(
        &self,
        snapshot: ObjectId,
        phys: &DslDataset,
        old: Option<ObjectId>,
        new: Option<ObjectId>,
    ) -> Result<(), DslError> {
        let problem = "it has a clone and no table of clones";
        let table = phys.next_clones;
        let table = table.ok_or(DslError::structure(snapshot, problem))?;
        if let Some(old) = old {
            self.remove_entry(table, &number_key(old.0))?;
        }
        match new {
            Some(new) => self.set_number(table, &number_key(new.0), new.0),
            None => Ok(()),
        }
    }

    /// The deadlist that a head gets when its present one becomes a snapshot's.
    fn next_deadlist(&self, phys: &DslDataset) -> Result<ObjectId, DslError> {
        let old = self.deadlist_entries(phys.deadlist)?;
        let mut keys: Vec<_> = old.iter().map(|entry| entry.key).collect();
        keys.push(phys.previous_snapshot_txg);
        let counting = self.counting_bookmarks(phys)?;
        keys.extend(counting.iter().map(|bookmark| bookmark.txg));
        keys.sort();
        keys.dedup();
        self.create_deadlist(&keys)
    }
}
