//! What the changes of ordinary users need.

use super::{DENIED, Judge};
use crate::errors::{of_dsl, parse_name};
use cenote_control::model::{
    Change, ControlError, Delegation, NewDataset, Pair, RollBack, SnapshotChange, permission_for,
};
use cenote_delegation::{Grantee, Scope};
use cenote_dsl::{DatasetName, Property};

/// What a dataset is made with, and `create` allows.
const OF_CREATION: [&str; 9] = [
    "casesensitivity",
    "encryption",
    "keyformat",
    "normalization",
    "pbkdf2iters",
    "utf8only",
    "version",
    "volblocksize",
    "volsize",
];

/// Properties that mount or unmount a file system. Their permissions give nothing (zfs-allow(8)).
const OF_MOUNTS: [&str; 3] = ["mountpoint", "canmount", "zoned"];

impl Judge<'_> {
    /// Refuses a change if the user lacks a permission.
    pub fn change(&self, change: &Change) -> Result<(), ControlError> {
        match change {
            Change::CreateDataset(new) => self.create_dataset(new),
            // Those that go with it are judged when they are found.
            Change::DestroyDataset { dataset, .. } | Change::AbortReceive { dataset } => {
                self.needs(dataset, &["mount", "destroy"])
            }
            Change::RollBack(wanted) => self.roll_back(wanted),
            Change::Snapshots(change) => self.snapshots(change),
            Change::RenameDataset { from, to, .. } => {
                self.needs(from, &["rename", "mount"])?;
                self.create(&parse_name(to)?)?;
                self.not_mounted(from)
            }
            Change::SetProperties {
                datasets,
                properties,
                ..
            } => {
                let mut datasets = datasets.iter();
                datasets.try_for_each(|dataset| self.set(dataset, properties))
            }
            Change::InheritProperty {
                datasets,
                property,
                recursive,
                ..
            } => {
                let mut datasets = datasets.iter();
                datasets.try_for_each(|name| self.inherit(name, property, *recursive))
            }
            Change::ChangeKey {
                dataset,
                properties,
                ..
            } => {
                self.needs(dataset, &["change-key"])?;
                let mut names = properties.iter().map(|(name, _)| name.as_str());
                match names.any(|name| name == "keylocation") {
                    true => self.needs(dataset, &["keylocation"]),
                    false => Ok(()),
                }
            }
            Change::Delegate(delegation) => self.delegate(delegation),
            // Pools and their devices, and what acts on this machine.
            _ => DENIED,
        }
    }

    fn create_dataset(&self, new: &NewDataset) -> Result<(), ControlError> {
        self.create(&parse_name(&new.name)?)?;
        self.new_properties(&new.name, &new.properties)?;
        match new.volume.is_some_and(|volume| !volume.sparse) {
            true => self.needs(&new.name, &["refreservation"]),
            false => Ok(()),
        }
    }

    /// Refuses the properties of a new dataset, which may be given by its create-time permissions.
    fn new_properties(&self, name: &str, properties: &[Pair]) -> Result<(), ControlError> {
        let is_free = |name: &str| OF_CREATION.contains(&name);
        let mut set = properties.iter().filter(|(property, _)| !is_free(property));
        set.try_for_each(|pair| self.property(name, pair))
    }

    /// Refuses to set a property.
    fn property(&self, dataset: &str, (property, _): &Pair) -> Result<(), ControlError> {
        let permission = permission_for(property).ok_or(ControlError::PermissionDenied)?;
        match OF_MOUNTS.contains(&permission) {
            true => DENIED,
            false => self.needs(dataset, &[permission]),
        }
    }

    /// Refuses what would have to be unmounted before.
    fn not_mounted(&self, dataset: &str) -> Result<(), ControlError> {
        match self.mounts.is_used(dataset) {
            true => DENIED,
            false => Ok(()),
        }
    }

    fn set(&self, dataset: &str, properties: &[Pair]) -> Result<(), ControlError> {
        let mut all = properties.iter();
        all.try_for_each(|pair| self.property(dataset, pair))?;
        let resizes = properties.iter().any(|(property, _)| property == "volsize");
        match resizes && self.is_reserved(dataset)? {
            true => self.needs(dataset, &["refreservation"]),
            false => Ok(()),
        }
    }

    /// Whether a volume has its space reserved, which then follows its size.
    fn is_reserved(&self, dataset: &str) -> Result<bool, ControlError> {
        let (_, dataset) = self.registry.dataset(&parse_name(dataset)?)?;
        let reserved = dataset.stored_number(Property::RefReservation);
        Ok(reserved.map_err(of_dsl)? != 0)
    }

    fn inherit(&self, name: &str, property: &str, recursive: bool) -> Result<(), ControlError> {
        let permission = permission_for(property).ok_or(ControlError::PermissionDenied)?;
        match OF_MOUNTS.contains(&permission) {
            true => DENIED,
            false => self.needs_below(name, recursive, &[permission]),
        }
    }

    fn roll_back(&self, wanted: &RollBack) -> Result<(), ControlError> {
        self.needs(&wanted.snapshot, &["rollback"])?;
        let mut clones = wanted.clones.iter();
        clones.try_for_each(|clone| self.not_mounted(clone))?;
        let mut gone = wanted.newer.iter().chain(&wanted.clones);
        gone.try_for_each(|name| self.needs(name, &["mount", "destroy"]))
    }

    fn snapshots(&self, change: &SnapshotChange) -> Result<(), ControlError> {
        let each = |names: &[String], recursive, permissions: &[&str]| {
            let mut names = names.iter();
            names.try_for_each(|name| self.needs_below(name, recursive, permissions))
        };
        match change {
            SnapshotChange::Create {
                names,
                recursive,
                properties,
            } => {
                each(names, *recursive, &["snapshot"])?;
                match properties.is_empty() {
                    true => Ok(()),
                    false => {
                        let mut all = names.iter();
                        all.try_for_each(|name| self.new_properties(name, properties))?;
                        each(names, *recursive, &["userprop"])
                    }
                }
            }
            SnapshotChange::Destroy { names, .. } => {
                let mut names = names.iter();
                names.try_for_each(|name| self.needs(name, &["mount", "destroy"]))
            }
            SnapshotChange::Hold {
                names, recursive, ..
            } => each(names, *recursive, &["hold"]),
            SnapshotChange::Release {
                names, recursive, ..
            } => each(names, *recursive, &["release"]),
            SnapshotChange::Clone {
                origin,
                name,
                properties,
                ..
            } => {
                self.needs(origin, &["clone"])?;
                self.create(&parse_name(name)?)?;
                self.new_properties(name, properties)
            }
            SnapshotChange::Promote { dataset } => self.promote(dataset),
            SnapshotChange::Rename {
                from, recursive, ..
            } => self.needs_below(from, *recursive, &["rename", "mount", "create"]),
            SnapshotChange::Bookmark {
                source, recursive, ..
            } => self.needs_below(source, *recursive, &["bookmark"]),
            SnapshotChange::DestroyBookmarks { names } => {
                let mut names = names.iter();
                names.try_for_each(|name| self.needs(name, &["destroy"]))
            }
        }
    }

    fn promote(&self, clone: &str) -> Result<(), ControlError> {
        self.needs(clone, &["promote", "mount"])?;
        let (imported, dataset) = self.registry.dataset(&parse_name(clone)?)?;
        let Some(origin) = dataset.directory().origin() else {
            return Ok(());
        };
        let origin = imported.dsl().dataset_of(origin).map_err(of_dsl)?;
        self.rights
            .check(&imported, &origin.name().dataset(), &["promote"])
    }

    /// Users may delegate what they have themselves, but not to delegate; and give up what was
    /// delegated to them by name. Sets change with their definitions, so they are not theirs to
    /// delegate.
    fn delegate(&self, delegation: &Delegation) -> Result<(), ControlError> {
        let name = parse_name(&delegation.dataset)?;
        let imported = self.registry.pool(name.pool())?;
        let registry = self.registry;
        let names = registry.names_below(name.as_str(), delegation.recursive)?;
        for grant in &delegation.granted {
            let wanted: Vec<&str> = grant.names.iter().map(String::as_str).collect();
            if wanted.contains(&"allow") {
                return DENIED;
            }
            let wanted: Vec<&str> = wanted.into_iter().chain(["allow"]).collect();
            if matches!(grant.scope, Scope::Local | Scope::None) {
                self.rights.check(&imported, &name, &wanted)?;
            }
            if matches!(grant.scope, Scope::Descendants | Scope::None) {
                self.rights.check_below(&imported, &name, &wanted)?;
            }
        }
        let own = Grantee::User(self.rights.user.id);
        let is_own = delegation.revoked.iter().all(|grant| grant.grantee == own);
        if !is_own {
            return DENIED;
        }
        let check = |name: &DatasetName| self.rights.check(&imported, name, &["allow"]);
        names.iter().try_for_each(check)
    }
}
