//! Giving datasets another name or place (format/3a 7).

use super::create::check_parent;
use super::limits::Moved;
use crate::directory::Directory;
use crate::error::DslError;
use crate::name::{DatasetName, NAME_LENGTH_MAX, NESTING_MAX};
use crate::write::blocks::accounting::{Part, SpaceChange, signed};
use crate::write::context::{SyncContext, SyncTask};
use std::sync::Arc;

/// Moves a dataset with all below it to another name in the same pool.
#[derive(Debug)]
pub struct RenameDataset {
    /// The dataset.
    pub from: DatasetName,
    /// Its new name.
    pub to: DatasetName,
}

impl RenameDataset {
    fn parent(&self, context: &SyncContext<'_>) -> Result<Arc<Directory>, DslError> {
        let missing = || DslError::NoParent {
            name: self.to.clone(),
        };
        let parent = self.to.parent().ok_or_else(missing)?;
        context.dsl.directory(&parent)?.ok_or_else(missing)
    }

    fn directory(&self, context: &SyncContext<'_>) -> Result<Arc<Directory>, DslError> {
        let found = context.dsl.directory(&self.from)?;
        found.ok_or_else(|| DslError::NoSuchDataset {
            name: self.from.clone(),
        })
    }

    /// Refuses a name that makes one below it too long.
    fn check_lengths(&self, directory: &Arc<Directory>) -> Result<(), DslError> {
        let growth = self.to.as_str().len() as i64 - self.from.as_str().len() as i64;
        let levels = |name: &DatasetName| name.components().count() as i64;
        let deeper = levels(&self.to) - levels(&self.from);
        if growth <= 0 && deeper <= 0 {
            return Ok(());
        }
        let fits = |name: &DatasetName| {
            name.as_str().len() as i64 + growth <= NAME_LENGTH_MAX as i64
                && levels(name) + deeper <= NESTING_MAX as i64
        };
        let too_long = |name: &DatasetName| DslError::NameTooLong { name: name.clone() };
        let mut stack = vec![Arc::clone(directory)];
        while let Some(directory) = stack.pop() {
            let name = directory.name();
            if !fits(name) {
                return Err(too_long(name));
            }
            if let Some(head) = directory.head()? {
                for entry in head.snapshots()? {
                    let length = name.as_str().len() + 1 + entry.name.len();
                    if length as i64 + growth > NAME_LENGTH_MAX as i64 {
                        return Err(too_long(name));
                    }
                }
            }
            for child in directory.children()? {
                stack.push(directory.open_child(&child)?);
            }
        }
        Ok(())
    }
}

impl SyncTask for RenameDataset {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let directory = self.directory(context)?;
        let parent = self.parent(context)?;
        if context.dsl.directory(&self.to)?.is_some() {
            let name = self.to.clone();
            return Err(DslError::DatasetExists { name });
        }
        if directory.parent().is_none() {
            let name = self.from.clone();
            return Err(DslError::RootDataset { name });
        }
        check_parent(&parent, &self.to)?;
        if parent.ancestry().any(|above| above.id() == directory.id()) {
            let name = self.to.clone();
            return Err(DslError::IntoItself { name });
        }
        context.check_moved_key(&directory, &parent)?;
        self.check_lengths(&directory)?;
        let Some(old) = directory.parent().filter(|old| old.id() != parent.id()) else {
            return Ok(());
        };
        let phys = directory.phys();
        let (filesystems, snapshots) = context.counts_of(&directory)?;
        let moved = Moved {
            space: phys.used_bytes.max(phys.reservation),
            filesystems,
            snapshots,
        };
        context.check_transfer(old, &parent, moved)
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let directory = self.directory(context)?;
        let parent = self.parent(context)?;
        let id = directory.id();
        let old = directory.parent().expect("checked to have one");
        let component = directory.name().last_component().as_bytes();
        context.remove_entry(old.phys().child_map, component)?;
        if old.id() != parent.id() {
            let phys = context.directory(id)?;
            context.begin_counts_below(&parent, &directory)?;
            let (filesystems, snapshots) = context.counts_of(&directory)?;
            let (filesystems, snapshots) = (signed(filesystems), signed(snapshots));
            context.change_counts(Some(old.id()), -filesystems, -snapshots)?;
            context.change_counts(Some(parent.id()), filesystems, snapshots)?;
            let used = SpaceChange {
                used: signed(phys.used_bytes),
                compressed: signed(phys.compressed_bytes),
                uncompressed: signed(phys.uncompressed_bytes),
            };
            let reserved = signed(phys.reservation.saturating_sub(phys.used_bytes));
            let reserved = SpaceChange::of_used(reserved);
            for (of, change) in [(Part::Children, used), (Part::ChildReservations, reserved)] {
                context.use_space(old.id(), of, change.negated())?;
                context.use_space(parent.id(), of, change)?;
            }
            context.change_directory(id, |phys| phys.parent = Some(parent.id()))?;
        }
        let children = context.directory(parent.id())?.child_map;
        context.set_number(children, self.to.last_component().as_bytes(), id.0)?;
        context.dsl.forget_names();
        context.dsl.refresh_policies()
    }
}
