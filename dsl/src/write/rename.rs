//! Giving datasets another name or place (format/3a 7).

use super::accounting::{Part, SpaceChange, signed};
use super::context::{SyncContext, SyncTask};
use super::create::check_parent;
use crate::directory::Directory;
use crate::error::DslError;
use crate::name::DatasetName;
use cenote_base::ObjectId;
use cenote_ondisk::dsl_dir::fields;
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
        if let Some(key) = directory.crypto_key()?
            && key.root() != directory.id()
        {
            let inside = |above: &Directory| above.id() == key.root();
            if !parent.ancestry().any(inside) {
                let name = self.from.clone();
                return Err(DslError::LeavesEncryptionRoot { name });
            }
        }
        let old = directory.parent().map(|old| old.id());
        if old != Some(parent.id()) {
            let used = directory
                .phys()
                .used_bytes
                .max(directory.phys().reservation);
            if used > parent.available()? && !is_below(&parent, old) {
                return Err(DslError::NoSpaceFor {
                    name: self.to.clone(),
                });
            }
        }
        Ok(())
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
            let counts = (
                directory.extension_number(fields::FILESYSTEM_COUNT)?,
                directory.extension_number(fields::SNAPSHOT_COUNT)?,
            );
            let filesystems = signed(counts.0.unwrap_or(0)) + 1;
            let snapshots = signed(counts.1.unwrap_or(0));
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

/// Whether a directory is `above` or hangs below it.
fn is_below(directory: &Arc<Directory>, above: Option<ObjectId>) -> bool {
    directory.ancestry().any(|place| Some(place.id()) == above)
}
