//! Steps of a walk over the tree of datasets, from handles that may be outdated.
//!
//! Datasets are created and destroyed during a walk. Each step reads the current state, not that of
//! an old handle, and returns `None` for a dataset that was destroyed.

use crate::dataset::{Dataset, SnapshotEntry};
use crate::directory::{ChildEntry, Directory};
use crate::dsl::Dsl;
use crate::error::DslError;
use crate::name::DatasetName;
use std::sync::Arc;

/// Takes "there is no such dataset" for an answer.
fn unless_gone<T>(read: Result<T, DslError>) -> Result<Option<T>, DslError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(DslError::NoSuchDataset { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Dsl {
    /// The directory of a name that there was.
    fn directory_there(self: &Arc<Self>, name: &DatasetName) -> Result<Arc<Directory>, DslError> {
        let missing = || DslError::NoSuchDataset { name: name.clone() };
        self.directory(name)?.ok_or_else(missing)
    }
}

impl Directory {
    /// The head, as it is now.
    pub fn head_now(self: &Arc<Self>) -> Result<Option<Dataset>, DslError> {
        let dsl = self.dsl();
        let by_name = || dsl.directory_there(self.name())?.head();
        unless_gone(dsl.by_handle_or_name(|| self.head(), by_name)).map(Option::flatten)
    }

    /// The children that lists show, as they are now.
    pub fn children_listed_now(self: &Arc<Self>) -> Result<Option<Vec<ChildEntry>>, DslError> {
        let dsl = self.dsl();
        let by_name = || dsl.directory_there(self.name())?.listed_children();
        unless_gone(dsl.by_handle_or_name(|| self.listed_children(), by_name))
    }

    /// A child that was listed, as it is now.
    pub fn child_now(
        self: &Arc<Self>,
        child: &ChildEntry,
    ) -> Result<Option<Arc<Directory>>, DslError> {
        let by_handle = || self.open_child(child);
        match self.name().child(&child.component) {
            Ok(name) => {
                let by_name = || self.dsl().directory_there(&name);
                unless_gone(self.dsl().by_handle_or_name(by_handle, by_name))
            }
            // No name: the error says why.
            Err(_) => by_handle().map(Some),
        }
    }
}

impl Dataset {
    /// The snapshots that lists show, as they are now.
    pub fn snapshots_listed_now(&self) -> Result<Option<Vec<SnapshotEntry>>, DslError> {
        let by_name = || self.dsl().dataset(self.name())?.listed_snapshots();
        unless_gone(
            self.dsl()
                .by_handle_or_name(|| self.listed_snapshots(), by_name),
        )
    }

    /// A snapshot that was listed, as it is now.
    pub fn snapshot_now(&self, entry: &SnapshotEntry) -> Result<Option<Dataset>, DslError> {
        let Ok(name) = self.name().snapshot(&entry.name) else {
            // No name: the error says why.
            return self.open_snapshot(entry).map(Some);
        };
        let by_handle = || {
            let found = self.open_snapshot(entry)?;
            // Its number may be another snapshot's by now.
            match found.phys().creation_txg == entry.creation_txg {
                true => Ok(found),
                false => self.dsl().dataset(&name),
            }
        };
        let by_name = || self.dsl().dataset(&name);
        unless_gone(self.dsl().by_handle_or_name(by_handle, by_name))
    }
}
