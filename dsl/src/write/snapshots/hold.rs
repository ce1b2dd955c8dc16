//! Holding snapshots, and letting them go (format/3a 10).
//!
//! A hold is a tag with the time at which it was put on a snapshot. Snapshots that were destroyed
//! meanwhile, with `defer`, go with their last hold.
//!
//! Temporary holds end with the process that made them: OpenZFS puts one on a snapshot that it
//! sends or receives. A table has them, so that an import takes off what a crash left. None is made
//! here: what the daemon sends it keeps in memory.

use crate::dataset::Dataset;
use crate::error::DslError;
use crate::name::DatasetName;
use crate::object_directory::keys;
use crate::write::context::{SyncContext, SyncTask};
use cenote_base::ObjectId;
use cenote_ondisk::ObjectType;
use std::collections::{BTreeSet, HashSet};

/// Bytes of a tag.
const TAG_LENGTH_MAX: usize = 255;

/// Puts holds on snapshots, all in one transaction group or none.
#[derive(Debug)]
pub struct HoldSnapshots {
    /// Snapshots and tags.
    pub holds: Vec<(DatasetName, String)>,
}

impl SyncTask for HoldSnapshots {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let mut new = HashSet::new();
        for (name, tag) in &self.holds {
            let snapshot = context.held_snapshot(name)?;
            let name = || name.clone();
            if tag.is_empty() {
                return Err(DslError::EmptyTag { name: name() });
            }
            if tag.len() > TAG_LENGTH_MAX {
                return Err(DslError::TagTooLong { name: name() });
            }
            let is_new = new.insert((snapshot.id(), tag.as_str()));
            if !is_new || context.has_hold(&snapshot, tag)? {
                return Err(DslError::TagExists { name: name() });
            }
        }
        Ok(())
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let now = context.seconds();
        for (name, tag) in &self.holds {
            let snapshot = context.held_snapshot(name)?;
            let table = match snapshot.phys().holds {
                Some(table) => table,
                None => {
                    let table = context.create_table(ObjectType::SNAPSHOT_REFCOUNT_TAGS)?;
                    context.change_dataset(snapshot.id(), |phys| phys.holds = Some(table))?;
                    table
                }
            };
            context.set_number(table, tag.as_bytes(), now)?;
        }
        Ok(())
    }
}

/// Takes holds off snapshots, all in one transaction group or none.
#[derive(Debug)]
pub struct ReleaseSnapshots {
    /// Snapshots and tags.
    pub holds: Vec<(DatasetName, String)>,
}

impl SyncTask for ReleaseSnapshots {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let mut released = HashSet::new();
        for (name, tag) in &self.holds {
            let snapshot = context.held_snapshot(name)?;
            let is_first = released.insert((snapshot.id(), tag.as_str()));
            if !is_first || !context.has_hold(&snapshot, tag)? {
                let name = name.clone();
                return Err(DslError::NoSuchTag { name });
            }
            context.check_remapped(&snapshot)?;
        }
        Ok(())
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let mut snapshots = BTreeSet::new();
        for (name, tag) in &self.holds {
            let snapshot = context.held_snapshot(name)?;
            if let Some(table) = snapshot.phys().holds {
                context.remove_entry(table, tag.as_bytes())?;
            }
            context.forget_temporary_hold(snapshot.id(), tag)?;
            snapshots.insert(snapshot.id());
        }
        snapshots
            .into_iter()
            .try_for_each(|id| context.destroy_if_deferred(id))
    }
}

/// Releases all temporary holds and empties their table: the processes that made them have ended.
/// Entries that name no snapshot, which crash OpenZFS, are removed, too.
#[derive(Debug, Default)]
pub struct EndTemporaryHolds {
    found: Vec<(ObjectId, String)>,
}

impl SyncTask for EndTemporaryHolds {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        self.found = context.dsl.temporary_holds()?;
        self.found.retain(|(id, _)| {
            let snapshot = context.dsl.dataset_of(*id);
            snapshot
                .is_ok_and(|found| found.is_snapshot() && context.check_remapped(&found).is_ok())
        });
        Ok(())
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        for (id, tag) in &self.found {
            let (_, phys) = context.dsl.read_dataset(*id)?;
            if let Some(table) = phys.holds {
                context.remove_entry(table, tag.as_bytes())?;
            }
        }
        context.forget_temporary_holds()?;
        let snapshots: BTreeSet<_> = self.found.iter().map(|(id, _)| *id).collect();
        snapshots
            .into_iter()
            .try_for_each(|id| context.destroy_if_deferred(id))
    }
}

impl SyncContext<'_> {
    /// The snapshot that is to be held or released.
    fn held_snapshot(&self, name: &DatasetName) -> Result<Dataset, DslError> {
        let found = self.find_snapshot(name)?;
        found.ok_or_else(|| DslError::NoSuchDataset { name: name.clone() })
    }

    fn has_hold(&self, snapshot: &Dataset, tag: &str) -> Result<bool, DslError> {
        match snapshot.phys().holds {
            Some(table) => Ok(self.mos().zap(table)?.lookup(tag.as_bytes())?.is_some()),
            None => Ok(false),
        }
    }

    fn forget_temporary_holds(&self) -> Result<(), DslError> {
        let Some(table) = self.dsl.object_directory().object(keys::TEMPORARY_HOLDS)? else {
            return Ok(());
        };
        let entries = self.mos().zap(table)?.entries();
        let names = entries.map(|entry| {
            let entry = entry?;
            Ok(entry.key.as_name().unwrap_or_default().to_vec())
        });
        let names: Vec<Vec<u8>> = names.collect::<Result<_, DslError>>()?;
        names
            .iter()
            .try_for_each(|name| self.remove_entry(table, name))
    }

    /// Takes a hold out of the table of those that end with the next import.
    fn forget_temporary_hold(&self, snapshot: ObjectId, tag: &str) -> Result<(), DslError> {
        match self.dsl.object_directory().object(keys::TEMPORARY_HOLDS)? {
            Some(table) => {
                let key = format!("{:x}-{tag}", snapshot.0);
                self.remove_entry(table, key.as_bytes())
            }
            None => Ok(()),
        }
    }
}
