//! Snapshots made and destroyed.
//!
//! What one command does to the snapshots of a pool is one task: all of it is in one transaction
//! group or none. Snapshots of different pools know nothing of each other.

use crate::command::{By, NotedOnce, run};
use crate::errors::parse_name;
use crate::mounts::table::Mounts;
use crate::mounts::unmount::unmount_dataset;
use crate::registry::table::Registry;
use crate::registry::walk::{is_within, walk_heads};
use crate::values::setting;
use cenote_control::model::{ControlError, NameFault, Pair, Response, SnapshotChange};
use cenote_dsl::property::parse::Purpose;
use cenote_dsl::property::table::Kinds;
use cenote_dsl::write::{CreateSnapshots, DestroySnapshots, Setting};
use cenote_dsl::{DatasetName, NameKind};
use std::collections::BTreeMap;

pub(crate) fn change_snapshots(
    registry: &Registry,
    mounts: &Mounts,
    change: SnapshotChange,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    match change {
        SnapshotChange::Create {
            names,
            recursive,
            properties,
        } => create_snapshots(registry, &names, recursive, &properties, by),
        SnapshotChange::Destroy { names, defer } => {
            destroy_snapshots(registry, mounts, &names, defer, by)
        }
    }
}

fn create_snapshots(
    registry: &Registry,
    names: &[String],
    recursive: bool,
    properties: &[Pair],
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let settings = snapshot_settings(properties)?;
    let mut wanted = snapshots_by_pool(names)?;
    if recursive {
        for names in wanted.values_mut() {
            *names = with_those_below(registry, names)?;
        }
    }
    let mut noted = NotedOnce::new(by);
    in_each_pool(wanted, |names| {
        let (imported, _) = registry.dataset(&names[0].dataset())?;
        let task = CreateSnapshots {
            names: names.to_vec(),
            properties: settings.clone(),
        };
        noted.change(names[0].as_str(), |by| run(&imported, task, by))?;
        Ok(())
    })
}

fn destroy_snapshots(
    registry: &Registry,
    mounts: &Mounts,
    names: &[String],
    defer: bool,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let wanted = snapshots_by_pool(names)?;
    let mut noted = NotedOnce::new(by);
    in_each_pool(wanted, |names| {
        let (imported, _) = registry.dataset(&names[0].dataset())?;
        for name in names {
            // Nobody is to read it any more.
            unmount_dataset(mounts, name.as_str(), false)?;
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
fn with_those_below(
    registry: &Registry,
    names: &[DatasetName],
) -> Result<Vec<DatasetName>, ControlError> {
    let mut all = Vec::new();
    for name in names {
        let component = name.after_delimiter().unwrap_or_default();
        let top = name.dataset();
        let (imported, _) = registry.dataset(&top)?;
        let mut failure = None;
        walk_heads(imported.dsl(), |head| {
            if !is_within(head.name(), &top) {
                return;
            }
            match parse_name(&format!("{}@{component}", head.name())) {
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
