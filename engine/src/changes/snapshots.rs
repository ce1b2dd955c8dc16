//! Snapshots made and destroyed.
//!
//! What one command does to the snapshots of a pool is one task: all of it is in one transaction
//! group or none. Snapshots of different pools know nothing of each other.

use super::properties::setting;
use super::{By, NotedOnce, run};
use crate::Engine;
use crate::datasets::walk_heads;
use crate::errors::parse_name;
use cenote_control::model::{ControlError, NameFault, Pair, Response, SnapshotChange};
use cenote_dsl::property::parse::Purpose;
use cenote_dsl::property::table::Kinds;
use cenote_dsl::write::{CreateSnapshots, DestroySnapshots, Setting};
use cenote_dsl::{DatasetName, NameKind};
use std::collections::BTreeMap;

impl Engine {
    pub(super) fn change_snapshots(
        &self,
        change: SnapshotChange,
        by: &By<'_>,
    ) -> Result<Response, ControlError> {
        match change {
            SnapshotChange::Create {
                names,
                recursive,
                properties,
            } => self.create_snapshots(&names, recursive, &properties, by),
            SnapshotChange::Destroy { names, defer } => self.destroy_snapshots(&names, defer, by),
        }
    }

    fn create_snapshots(
        &self,
        names: &[String],
        recursive: bool,
        properties: &[Pair],
        by: &By<'_>,
    ) -> Result<Response, ControlError> {
        let settings = snapshot_settings(properties)?;
        let mut wanted = snapshots_by_pool(names)?;
        if recursive {
            for names in wanted.values_mut() {
                *names = self.with_those_below(names)?;
            }
        }
        let mut noted = NotedOnce::new(by);
        self.in_each_pool(wanted, |names| {
            let (imported, _) = self.registry.dataset(&names[0].dataset())?;
            let task = CreateSnapshots {
                names: names.to_vec(),
                properties: settings.clone(),
            };
            noted.change(names[0].as_str(), |by| run(&imported, task, by))?;
            Ok(())
        })
    }

    fn destroy_snapshots(
        &self,
        names: &[String],
        defer: bool,
        by: &By<'_>,
    ) -> Result<Response, ControlError> {
        let wanted = snapshots_by_pool(names)?;
        let mut noted = NotedOnce::new(by);
        self.in_each_pool(wanted, |names| {
            let (imported, _) = self.registry.dataset(&names[0].dataset())?;
            for name in names {
                self.leave_snapshot(name)?;
            }
            let task = DestroySnapshots {
                names: names.to_vec(),
                defer,
            };
            noted.change(names[0].as_str(), |by| run(&imported, task, by))?;
            Ok(())
        })
    }

    /// Does the same in each pool; a failure tells the snapshot that it is about, or the first.
    fn in_each_pool(
        &self,
        wanted: BTreeMap<String, Vec<DatasetName>>,
        mut each: impl FnMut(&[DatasetName]) -> Result<(), ControlError>,
    ) -> Result<Response, ControlError> {
        let mut failures = Vec::new();
        let mut done = 0;
        for names in wanted.values().filter(|names| !names.is_empty()) {
            match each(names) {
                Ok(()) => done += names.len() as u64,
                Err(error) => failures.push((subject(&error, names), error)),
            }
        }
        Ok(Response::Failures { failures, done })
    }

    /// The same snapshots of all datasets below theirs, too.
    fn with_those_below(&self, names: &[DatasetName]) -> Result<Vec<DatasetName>, ControlError> {
        let mut all = Vec::new();
        for name in names {
            let component = name.after_delimiter().unwrap_or_default();
            let (top, prefix) = (name.dataset(), format!("{}/", name.dataset()));
            let (imported, _) = self.registry.dataset(&top)?;
            let mut failure = None;
            walk_heads(imported.dsl(), |head| {
                let text = head.name().as_str();
                if text != top.as_str() && !text.starts_with(&prefix) {
                    return;
                }
                match parse_name(&format!("{text}@{component}")) {
                    Ok(name) => all.push(name),
                    Err(error) => failure = Some(error),
                }
            });
            if let Some(error) = failure {
                return Err(error);
            }
        }
        Ok(all)
    }

    /// Sees to it that nobody reads a snapshot any more.
    fn leave_snapshot(&self, name: &DatasetName) -> Result<(), ControlError> {
        self.unmount_dataset(name.as_str(), false)
    }
}

/// The snapshot that a refusal is about: the one it names, or the first of those asked for.
fn subject(error: &ControlError, names: &[DatasetName]) -> String {
    let named = match error {
        ControlError::Exists { name } => Some(name),
        ControlError::SnapshotsOfSame { snapshot } | ControlError::SnapshotCloned { snapshot } => {
            Some(snapshot)
        }
        ControlError::DatasetBusy { dataset } => Some(dataset),
        _ => None,
    };
    let first = names.first().map(|name| name.as_str().to_owned());
    named.cloned().or(first).unwrap_or_default()
}

/// Snapshots' names, by pool, in the order given.
fn snapshots_by_pool(names: &[String]) -> Result<BTreeMap<String, Vec<DatasetName>>, ControlError> {
    let mut by_pool: BTreeMap<String, Vec<DatasetName>> = BTreeMap::new();
    for name in names {
        let parsed = parse_name(name)?;
        if parsed.kind() != NameKind::Snapshot {
            let (name, fault) = (name.clone(), NameFault::NoSnapshot);
            return Err(ControlError::BadName { name, fault });
        }
        let pool = parsed.pool().to_owned();
        by_pool.entry(pool).or_default().push(parsed);
    }
    Ok(by_pool)
}

/// The properties of new snapshots.
fn snapshot_settings(properties: &[Pair]) -> Result<Vec<Setting>, ControlError> {
    let purpose = Purpose {
        kinds: Kinds::SNAPSHOT,
        at_creation: true,
    };
    properties
        .iter()
        .map(|pair| setting(pair, purpose))
        .collect()
}
