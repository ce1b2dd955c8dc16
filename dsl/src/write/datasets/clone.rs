//! Making clones (format/3a 7, "Clone").
//!
//! A clone is a new head with the root of a snapshot: it takes no space until it is changed. It
//! shares the keys of its origin, wherever it is made. From the start it keeps a list of what it
//! wrote, by which it is freed quickly ([`crate::write::blocks::livelist`]).

use crate::dataset::Dataset;
use crate::error::DslError;
use crate::name::DatasetName;
use crate::write::context::{SyncContext, SyncTask};
use crate::write::properties::Setting;
use cenote_base::ObjectId;
use cenote_ondisk::crypto_key::entries;
use cenote_ondisk::dsl_dir::fields::CRYPTO_KEY;

/// Makes a clone of a snapshot.
#[derive(Debug)]
pub struct CloneDataset {
    /// The snapshot.
    pub origin: DatasetName,
    /// The clone.
    pub name: DatasetName,
    /// Properties set on it from the start.
    pub properties: Vec<Setting>,
    /// Its number once it is made.
    pub created: Option<ObjectId>,
}

impl CloneDataset {
    fn origin(&self, context: &SyncContext<'_>) -> Result<Dataset, DslError> {
        let origin = context.dsl.dataset(&self.origin)?;
        match origin.is_snapshot() {
            true => Ok(origin),
            false => Err(DslError::NotASnapshot {
                name: self.origin.clone(),
            }),
        }
    }
}

impl SyncTask for CloneDataset {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let origin = self.origin(context)?;
        context.check_new_dataset(&self.name, &self.properties)?;
        let name = || self.origin.clone();
        if origin.is_inconsistent() {
            return Err(DslError::Busy { name: name() });
        }
        context.deadlist_entries(origin.phys().deadlist)?;
        // What the clone writes in its first group must be younger than its origin.
        match origin.phys().creation_txg >= context.txg() {
            true => Err(DslError::NextGroup { name: name() }),
            false => Ok(()),
        }
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let origin = self.origin(context)?;
        let parent = context.parent_of(&self.name)?.id();
        let component = self.name.last_component().as_bytes();
        let directory = context.create_directory(Some(parent), component)?;
        let id = context.create_head(directory, Some(origin.id()))?;
        context.copy_dataset_features(origin.id(), id)?;
        context.share_keys(&origin, directory)?;
        let dataset = context.dsl.dataset_of(id)?;
        for setting in &self.properties {
            context.account_setting(&dataset, setting)?;
        }
        context.apply_settings(directory, &self.properties)?;
        context.change_counts(Some(parent), 1, 0)?;
        context.begin_livelist(directory)?;
        context.clear_copied_log(id)?;
        self.created = Some(id);
        Ok(())
    }
}

impl SyncContext<'_> {
    /// Gives a clone's directory the keys of its origin's (format/2d 2).
    pub(crate) fn share_keys(&self, origin: &Dataset, directory: ObjectId) -> Result<(), DslError> {
        let Some(key) = origin.directory().crypto_key()? else {
            return Ok(());
        };
        self.set_extension(directory, CRYPTO_KEY, key.object.0)?;
        let references = key.stored.references.max(1) + 1;
        self.set_number(key.object, entries::REFERENCES.as_bytes(), references)
    }
}
