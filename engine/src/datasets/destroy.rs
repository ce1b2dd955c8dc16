//! Datasets destroyed.
//!
//! With snapshots and clones there is an order to keep: a clone goes before the snapshot that it
//! began as, snapshots go before their dataset, children before their parents. What is in the way
//! of what can be anywhere in the tree after promotions, so with clones it is not sorted out
//! beforehand: round by round all goes that can go, until nothing is left or nothing more can.
//! Without clones the order is known, and the first refusal ends it: who is refused loses no more.

use crate::command::{By, NotedOnce, run};
use crate::context::Context;
use crate::errors::{of_dsl, parse_name};
use crate::mounts::places::remove_places;
use crate::mounts::table::Mounts;
use crate::mounts::unmount::unmount_dataset;
use cenote_control::model::{ControlError, Response};
use cenote_dsl::DatasetName;
use cenote_dsl::write::{DestroyDataset, DestroySnapshots};
use std::collections::BTreeSet;

/// How a dataset is destroyed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destruction {
    /// With its snapshots and all below it.
    pub recursive: bool,
    /// With all clones of its snapshots.
    pub clones: bool,
    /// Unmount although busy.
    pub force: bool,
    /// Only check.
    pub dry_run: bool,
}

pub(crate) fn destroy_dataset(
    context: &Context,
    mounts: &Mounts,
    dataset: &str,
    how: Destruction,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let mut left = doomed(context, dataset, how)?;
    if how.dry_run {
        return Ok(Response::Done);
    }
    let mut noted = NotedOnce::new(by);
    let mut done = 0;
    loop {
        let mut failures = Vec::new();
        let mut remaining = BTreeSet::new();
        // Children come behind their parents, and go first.
        for name in left.iter().rev() {
            match destroy_one(context, mounts, name, how, &mut noted) {
                Ok(()) => done += 1,
                Err(error) => {
                    failures.push((name.as_str().to_owned(), error));
                    if !how.clones {
                        return Ok(Response::Failures { failures, done });
                    }
                    remaining.insert(name.clone());
                }
            }
        }
        let is_stuck = remaining.len() == left.len();
        left = remaining;
        if left.is_empty() || is_stuck {
            return Ok(Response::Failures { failures, done });
        }
    }
}

/// What is destroyed with a dataset: with `recursive` all below it, with `clones` all clones of
/// snapshots of these and all below them.
fn doomed(
    context: &Context,
    dataset: &str,
    how: Destruction,
) -> Result<BTreeSet<DatasetName>, ControlError> {
    let mut found = BTreeSet::new();
    let mut roots = vec![dataset.to_owned()];
    while let Some(root) = roots.pop() {
        if found.iter().any(|name: &DatasetName| name.as_str() == root) {
            continue;
        }
        for name in context.registry.names_below(&root, how.recursive)? {
            if how.clones {
                roots.extend(clones_of(context, &name)?);
            }
            found.insert(name);
        }
    }
    Ok(found)
}

/// The names of the clones of a dataset's snapshots.
fn clones_of(context: &Context, name: &DatasetName) -> Result<Vec<String>, ControlError> {
    let (imported, head) = context.registry.dataset(name)?;
    let mut clones = Vec::new();
    for snapshot in head.listed_snapshots().map_err(of_dsl)? {
        let (_, snapshot) = context
            .registry
            .dataset(&parse_name(&format!("{name}@{}", text(&snapshot.name)))?)?;
        for clone in snapshot.next_clones().map_err(of_dsl)? {
            let clone = imported.dsl().dataset_of(clone).map_err(of_dsl)?;
            // What stands there is the oldest of the clone's snapshots, or the clone.
            clones.push(clone.name().dataset().as_str().to_owned());
        }
    }
    Ok(clones)
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn destroy_one(
    context: &Context,
    mounts: &Mounts,
    name: &DatasetName,
    how: Destruction,
    noted: &mut NotedOnce<'_>,
) -> Result<(), ControlError> {
    let (imported, dataset) = context.registry.dataset(name)?;
    let places = mounts.derived_places(name.as_str());
    // What is in use is refused before its snapshots are gone.
    unmount_dataset(mounts, name.as_str(), how.force)?;
    if how.recursive {
        destroy_snapshots_of(context, mounts, name, how.clones, noted)?;
    }
    imported.close_head(dataset.id())?;
    drop(dataset);
    let task = DestroyDataset { name: name.clone() };
    noted.change(name.as_str(), |by| run(&imported, task, by))?;
    remove_places(&places);
    // A snapshot that waited for its last clone to go is destroyed with it.
    mounts.forget_snapshots(imported.name());
    Ok(())
}

/// Destroys all snapshots of a dataset, all or none; with `each`, those that can go if not all can.
fn destroy_snapshots_of(
    context: &Context,
    mounts: &Mounts,
    name: &DatasetName,
    each: bool,
    noted: &mut NotedOnce<'_>,
) -> Result<(), ControlError> {
    let (imported, head) = context.registry.dataset(name)?;
    let mut names = Vec::new();
    for snapshot in head.listed_snapshots().map_err(of_dsl)? {
        let snapshot = parse_name(&format!("{name}@{}", text(&snapshot.name)))?;
        unmount_dataset(mounts, snapshot.as_str(), false)?;
        names.push(snapshot);
    }
    if names.is_empty() {
        return Ok(());
    }
    let mut destroy = |names: &[DatasetName]| {
        let task = DestroySnapshots {
            names: names.to_vec(),
            defer: false,
        };
        noted
            .change(name.as_str(), |by| run(&imported, task, by))
            .map(drop)
    };
    let mut outcome = destroy(&names);
    if outcome.is_err() && each && names.len() > 1 {
        outcome = Ok(());
        for one in &names {
            outcome = outcome.and(destroy(std::slice::from_ref(one)));
        }
    }
    mounts.forget_snapshots(imported.name());
    outcome
}
