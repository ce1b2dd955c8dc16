//! Permissions that are delegated, and taken back (format/3a 10).

use crate::error::DslError;
use crate::name::DatasetName;
use crate::write::context::{SyncContext, SyncTask};
use cenote_base::ObjectId;
use cenote_delegation::{Grant, Grants, grant_key};
use cenote_ondisk::ObjectType;
use cenote_ondisk::dsl_dir::DslDir;
use std::collections::BTreeSet;

/// Changes the grants of datasets, all in one transaction group or none.
#[derive(Debug)]
pub struct Delegate {
    /// The datasets.
    pub names: Vec<DatasetName>,
    /// What is added.
    pub granted: Vec<Grant>,
    /// What is taken away before; a grant without names stands for all names.
    pub revoked: Vec<Grant>,
}

impl SyncTask for Delegate {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        for name in &self.names {
            context.dsl.dataset(name)?.directory().grants()?;
        }
        Ok(())
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        for name in &self.names {
            let dataset = context.dsl.dataset(name)?;
            let mut grants = dataset.directory().grants()?;
            self.revoked.iter().for_each(|grant| grants.remove(grant));
            self.granted.iter().for_each(|grant| grants.add(grant));
            context.store_grants(name, &grants)?;
        }
        Ok(())
    }
}

/// A task that makes datasets; a user gets the create-time permissions on them.
pub struct MadeBy<T> {
    /// The task.
    pub task: T,
    /// The datasets that it makes.
    pub names: Vec<DatasetName>,
    /// The user.
    pub user: u64,
}

impl<T: SyncTask> SyncTask for MadeBy<T> {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        self.task.check(context)?;
        for name in &self.names {
            context.grants_of_creator(name, self.user)?;
        }
        Ok(())
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        self.task.sync(context)?;
        for name in &self.names {
            let grants = context.grants_of_creator(name, self.user)?;
            context.store_grants(name, &grants)?;
        }
        Ok(())
    }
}

impl SyncContext<'_> {
    /// The create-time permissions of all datasets above a new one.
    fn grants_of_creator(&self, name: &DatasetName, user: u64) -> Result<Grants, DslError> {
        let parent = self.parent_of(name)?;
        let levels: Result<Vec<Grants>, DslError> = parent
            .ancestry()
            .map(|directory| directory.grants())
            .collect();
        Ok(Grants::of_creator(&levels?, user))
    }

    /// Writes the grants of a dataset. Tables that would be empty are freed.
    fn store_grants(&self, name: &DatasetName, grants: &Grants) -> Result<(), DslError> {
        let dataset = self.dsl.dataset(name)?;
        let directory = dataset.directory();
        let mut left = directory.grant_tables()?;
        let is_set = |name: &String| name.starts_with('@');
        for grant in grants.all() {
            let (sets, permissions): (BTreeSet<_>, BTreeSet<_>) =
                grant.names.iter().cloned().partition(is_set);
            for (names, of_sets) in [(permissions, false), (sets, true)] {
                if names.is_empty() {
                    continue;
                }
                let key = grant_key(&grant.grantee, grant.scope, of_sets);
                let known = left.iter().position(|(known, _)| *known == key);
                let table = match known {
                    Some(at) => left.swap_remove(at).1,
                    None => self.new_grant_table(directory.id(), &key)?,
                };
                self.store_names(table, names)?;
            }
        }
        for (key, table) in left {
            self.destroy_object(table)?;
            if let Some(map) = self.directory(directory.id())?.delegations {
                self.remove_entry(map, key.as_bytes())?;
            }
        }
        match grants.is_empty() {
            true => self.free_empty_map(directory.id()),
            false => Ok(()),
        }
    }

    /// An empty table for a key of a directory's map, which is made if there is none.
    fn new_grant_table(&self, directory: ObjectId, key: &str) -> Result<ObjectId, DslError> {
        let map = match self.directory(directory)?.delegations {
            Some(map) => map,
            None => {
                let map = self.create_table(ObjectType::DSL_PERMISSIONS)?;
                self.change_directory(directory, |phys| phys.delegations = Some(map))?;
                map
            }
        };
        let table = self.create_table(ObjectType::DSL_PERMISSIONS)?;
        self.set_number(map, key.as_bytes(), table.0)?;
        Ok(table)
    }

    /// Makes the keys of a table these names.
    fn store_names(&self, table: ObjectId, names: BTreeSet<String>) -> Result<(), DslError> {
        let known = self.dsl.grant_names(table)?;
        for gone in known.difference(&names) {
            self.remove_entry(table, gone.as_bytes())?;
        }
        let mut new = names.difference(&known);
        new.try_for_each(|name| self.set_number(table, name.as_bytes(), 0))
    }

    fn free_empty_map(&self, directory: ObjectId) -> Result<(), DslError> {
        let Some(map) = self.directory(directory)?.delegations else {
            return Ok(());
        };
        self.destroy_object(map)?;
        self.change_directory(directory, |phys| phys.delegations = None)
    }

    /// Frees the grants of a directory that is destroyed, whatever keys they have.
    pub(crate) fn free_grants(&self, phys: &DslDir) -> Result<(), DslError> {
        let Some(map) = phys.delegations else {
            return Ok(());
        };
        for entry in self.mos().zap(map)?.entries() {
            if let Some(table) = entry?.value.as_u64() {
                self.destroy_object(ObjectId(table))?;
            }
        }
        self.destroy_object(map)
    }
}
