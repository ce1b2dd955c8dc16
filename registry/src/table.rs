//! The imported pools.

use super::approvals::{Approvals, ApprovedIn};
use super::cache_places::CacheFiles;
use super::imported::Imported;
use super::walk::{is_within, walk_heads};
use crate::errors::{of_dsl, parse_name};
use cenote_base::rt::{RwLock, ranks};
use cenote_control::model::ControlError;
use cenote_dsl::{Dataset, DatasetName, NameKind};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The pools by name.
#[derive(Debug, Default)]
pub struct Registry {
    pools: RwLock<BTreeMap<String, Arc<Imported>>, ranks::Registry>,
    /// The files that say what is imported.
    pub cache_files: CacheFiles,
    /// Which values of properties may act on this machine.
    pub approvals: Approvals,
}

impl Registry {
    /// No pools yet; those to come are in these files.
    pub fn new(cache_files: CacheFiles, approvals: Approvals) -> Self {
        Self {
            pools: RwLock::default(),
            cache_files,
            approvals,
        }
    }

    /// All pools in order of name.
    pub fn all(&self) -> Vec<Arc<Imported>> {
        let pools = self.pools.read();
        pools.values().cloned().collect()
    }

    /// The values of properties that may act, of this pool.
    pub fn approved_in(&self, imported: &Imported) -> ApprovedIn<'_> {
        self.approvals.of_pool(imported)
    }

    /// Whether no pool is imported.
    pub fn is_empty(&self) -> bool {
        let pools = self.pools.read();
        pools.is_empty()
    }

    /// The pool with this name.
    ///
    /// # Errors
    /// [`ControlError::NoSuchPool`].
    pub fn pool(&self, name: &str) -> Result<Arc<Imported>, ControlError> {
        let pools = self.pools.read();
        let found = pools.get(name).cloned();
        found.ok_or_else(|| ControlError::NoSuchPool {
            pool: name.to_owned(),
        })
    }

    /// The pool with this name, refused when it is only read or takes no changes now.
    pub fn writable_pool(&self, name: &str) -> Result<Arc<Imported>, ControlError> {
        let found = self.pool(name)?;
        let pool = name.to_owned();
        match found.pool.is_writable() {
            true if found.pool.suspended().is_some() => Err(ControlError::Suspended { pool }),
            true => Ok(found),
            false => Err(ControlError::PoolReadOnly { pool }),
        }
    }

    /// The pool with this name or guid.
    pub fn pool_or_guid(&self, pool: &str) -> Result<Arc<Imported>, ControlError> {
        let guid = pool.parse::<u64>().ok();
        let has_guid = |imported: &Arc<Imported>| Some(imported.pool.guid().0) == guid;
        let by_guid = || self.all().into_iter().find(has_guid);
        self.pool(pool).or_else(|error| by_guid().ok_or(error))
    }

    /// Whether a pool with this guid is imported.
    pub fn has_guid(&self, guid: u64) -> bool {
        self.all().iter().any(|pool| pool.pool.guid().0 == guid)
    }

    /// Takes a pool in; refused when its name is taken.
    pub fn insert(&self, mut imported: Imported) -> Result<Arc<Imported>, ControlError> {
        imported
            .default_cache_file
            .clone_from(&self.cache_files.default);
        let mut pools = self.pools.write();
        let name = imported.name().to_owned();
        if pools.contains_key(&name) {
            return Err(ControlError::PoolNameTaken { pool: name });
        }
        let imported = Arc::new(imported);
        pools.insert(name, Arc::clone(&imported));
        Ok(imported)
    }

    /// Takes a pool out: it has left.
    pub fn remove(&self, name: &str) {
        let mut pools = self.pools.write();
        if let Some(gone) = pools.remove(name) {
            gone.has_left.store(true, Ordering::Release);
        }
    }

    /// The pool that a dataset's name begins with; a name whose pool is not here is that of no
    /// dataset.
    pub fn pool_of(&self, name: &DatasetName) -> Result<Arc<Imported>, ControlError> {
        self.pool(name.pool()).map_err(|_| match name.kind() {
            NameKind::Bookmark => ControlError::NoSuchBookmark {
                bookmark: name.as_str().to_owned(),
            },
            _ => ControlError::NoSuchDataset {
                dataset: name.as_str().to_owned(),
            },
        })
    }

    /// The dataset or snapshot with this name.
    ///
    /// # Errors
    /// It does not exist, or cannot be read.
    pub fn dataset(&self, name: &DatasetName) -> Result<(Arc<Imported>, Dataset), ControlError> {
        let imported = self.pool_of(name)?;
        let dataset = imported.dsl().dataset(name).map_err(of_dsl)?;
        Ok((imported, dataset))
    }

    /// The result of reading a dataset; an I/O error becomes "no such dataset" if it was destroyed
    /// meanwhile.
    pub fn unless_gone<T>(
        &self,
        name: &DatasetName,
        read: Result<T, ControlError>,
    ) -> Result<T, ControlError> {
        match (&read, self.dataset(name)) {
            (Err(ControlError::Io { .. }), Err(gone @ ControlError::NoSuchDataset { .. })) => {
                Err(gone)
            }
            _ => read,
        }
    }

    /// The named pools, or all; and those that are not here.
    pub fn named(&self, names: &[String]) -> (Vec<Arc<Imported>>, Vec<(String, ControlError)>) {
        if names.is_empty() {
            return (self.all(), Vec::new());
        }
        let mut found = Vec::new();
        let mut failures = Vec::new();
        for name in names {
            match self.pool(name) {
                Ok(imported) => found.push(imported),
                Err(error) => failures.push((name.clone(), error)),
            }
        }
        (found, failures)
    }

    /// A dataset, and with `recursive` all heads below it, parents first.
    pub fn names_below(
        &self,
        name: &str,
        recursive: bool,
    ) -> Result<Vec<DatasetName>, ControlError> {
        let name = parse_name(name)?;
        let (imported, _) = self.dataset(&name)?;
        if !recursive {
            return Ok(vec![name]);
        }
        let mut names = Vec::new();
        walk_heads(imported.dsl(), |head| {
            if is_within(head.name(), &name) {
                names.push(head.name().clone());
            }
        });
        Ok(names)
    }
}
