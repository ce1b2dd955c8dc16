//! Datasets destroyed.
//!
//! A recursive destroy has an order: clones before their origin snapshot, snapshots before their
//! dataset, children before their parents. After promotions these dependencies can go across the
//! whole tree, so the order is computed before anything is changed. So are the datasets that have
//! to stay, because they are held, have clones elsewhere, or are below their own clone. Only an
//! unmount or close shows whether a dataset is in use. So all datasets are unmounted and closed
//! before the first is destroyed. A refused command destroys nothing.

use crate::command::{By, NotedOnce, run};
use crate::context::Context;
use crate::errors::{of_dsl, parse_name};
use crate::mounts::follow::mount_these;
use crate::mounts::places::remove_places;
use crate::mounts::table::Mounts;
use crate::mounts::unmount::{Elsewhere, unmount_dataset};
use crate::registry::imported::Imported;
use crate::registry::open_trees::TreesHeld;
use crate::registry::served::DisksHeld;
use crate::registry::walk::is_within;
use cenote_control::model::{ControlError, Response};
use cenote_dsl::write::{DestroyDataset, DestroySnapshots, RECEIVE_CHILD};
use cenote_dsl::{DatasetName, DslError};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

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
    let doomed = doomed(context, dataset, how)?;
    for name in &doomed {
        let imported = context.registry.pool(name.pool())?;
        by.check(&imported, name, &["mount", "destroy"])?;
        // Only root unmounts.
        if by.rights.is_some() && mounts.is_used(name.as_str()) {
            return Err(ControlError::PermissionDenied);
        }
    }
    if how.dry_run {
        return Ok(Response::Done);
    }
    let order = match how.recursive {
        true => order(context, &doomed)?,
        false => Ok(doomed.into_iter().collect()),
    };
    let order = match order {
        Ok(order) => order,
        Err(failures) => return Ok(Response::Failures { failures, done: 0 }),
    };
    let Some(first) = order.first() else {
        return Ok(Response::Failures {
            failures: Vec::new(),
            done: 0,
        });
    };
    let (imported, _) = context.registry.dataset(first)?;
    let freed = match free(context, mounts, &imported, (&order, how)) {
        Ok(freed) => freed,
        Err((name, error)) => {
            return Ok(Response::Failures {
                failures: vec![(name.as_str().to_owned(), error)],
                done: 0,
            });
        }
    };
    let mut noted = NotedOnce::new(by);
    for (done, name) in order.iter().enumerate() {
        if let Err(error) = destroy_one(context, mounts, name, how, &mut noted) {
            mount_these(&context.registry, mounts, &freed.mounted);
            remove_places(&freed.places);
            return Ok(Response::Failures {
                failures: vec![(name.as_str().to_owned(), error)],
                done: done as u64,
            });
        }
    }
    remove_places(&freed.places);
    Ok(Response::Failures {
        failures: Vec::new(),
        done: order.len() as u64,
    })
}

/// Datasets that nothing uses.
struct Freed<'a> {
    /// Those that were mounted at their own places, the last one first.
    mounted: Vec<String>,
    /// Directories that were made for mounts.
    places: Vec<PathBuf>,
    /// No site shows them, and nothing makes disks of them.
    _held: (TreesHeld<'a>, Vec<Held<'a>>),
}

/// What keeps a dataset, and its snapshots, from being used.
type Held<'a> = (DisksHeld<'a>, Option<(DisksHeld<'a>, TreesHeld<'a>)>);

/// Unmounts and closes datasets before they are destroyed. If one of them is in use, mounts all of
/// them again.
fn free<'a>(
    context: &Context,
    mounts: &Mounts,
    imported: &'a Imported,
    (order, how): (&[DatasetName], Destruction),
) -> Result<Freed<'a>, (DatasetName, ControlError)> {
    // The root of a pool stays.
    let doomed: Vec<&DatasetName> = order
        .iter()
        .filter(|name| name.parent().is_some())
        .collect();
    let mut ids = Vec::new();
    for name in &doomed {
        let dataset = imported.dsl().dataset(name);
        let dataset = dataset.map_err(|error| ((*name).clone(), of_dsl(error)))?;
        ids.push(dataset.id());
    }
    let is_doomed = |dataset: &str| doomed.iter().any(|name| name.as_str() == dataset);
    let head = |dataset: &str| dataset.split('@').next().unwrap_or_default().to_owned();
    let found = mounts.newest_first(|entry| is_doomed(&head(&entry.dataset)));
    let mut mounted: Vec<String> = found.iter().map(|(dataset, _)| dataset.clone()).collect();
    mounted.retain(|dataset| mounts.is_at_own_place(dataset));
    let places = doomed.iter();
    let places = places.flat_map(|name| mounts.derived_places(name.as_str()));
    let places: Vec<PathBuf> = places.collect();
    let trees = imported.hold_trees(how.force, |tree| ids.contains(&tree));
    let trees = trees.map_err(|error| (order[0].clone(), error))?;
    let unmount = || -> Result<(), (DatasetName, ControlError)> {
        // One can be mounted within another that is no child of it.
        for (dataset, mounted) in found {
            let force = how.force && !dataset.contains('@');
            let gone = mounts.unmount_one(mounted, force);
            let name = doomed.iter().find(|name| name.as_str() == head(&dataset));
            gone.map_err(|error| (name.map_or(order[0].clone(), |name| (*name).clone()), error))?;
        }
        Ok(())
    };
    let close = |name: &DatasetName, id| -> Result<Held<'a>, ControlError> {
        let disks = imported.free_dataset(name, how.force)?;
        let elsewhere = Elsewhere::unused_or(how.force);
        unmount_dataset(mounts, name.as_str(), (how.force, elsewhere))?;
        imported.end_head(id, how.force)?;
        let snapshots = match how.recursive {
            true => Some(imported.free_snapshots(&snapshots_of(imported, name)?)?),
            false => None,
        };
        Ok((disks, snapshots))
    };
    let closed = unmount().and_then(|()| {
        let each = doomed.iter().zip(&ids);
        let each = each.map(|(name, id)| {
            let closed = close(name, *id);
            closed.map_err(|error| ((*name).clone(), error))
        });
        each.collect::<Result<Vec<_>, _>>()
    });
    let closed = closed.inspect_err(|_| mount_these(&context.registry, mounts, &mounted))?;
    Ok(Freed {
        mounted,
        places,
        _held: (trees, closed),
    })
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
                let clones = clones_of(context, &name)?.into_iter();
                roots.extend(clones.map(|(_, clone)| clone.as_str().to_owned()));
            }
            found.insert(name);
        }
    }
    Ok(found)
}

/// Names, each with the reason why it stays.
type Reasons = Vec<(String, ControlError)>;

/// The datasets in an order in which they can go, or those that have to stay.
fn order(
    context: &Context,
    doomed: &BTreeSet<DatasetName>,
) -> Result<Result<Vec<DatasetName>, Reasons>, ControlError> {
    // Clones of each, with the snapshots that they began as.
    let mut clones = BTreeMap::new();
    let mut stay = Vec::new();
    for name in doomed {
        let found = clones_of(context, name)?;
        for (snapshot, clone) in &found {
            if !doomed.contains(clone) {
                let snapshot = snapshot.clone();
                let error = ControlError::SnapshotCloned { snapshot };
                stay.push((name.as_str().to_owned(), error));
            }
        }
        clones.insert(name, found);
        if let Some(dataset) = held_snapshot(context, name)? {
            let error = ControlError::DatasetBusy { dataset };
            stay.push((name.as_str().to_owned(), error));
        }
    }
    if !stay.is_empty() {
        return Ok(Err(stay));
    }
    let mut left = doomed.clone();
    let mut order = Vec::new();
    while !left.is_empty() {
        let mut count = 0;
        // Children come behind their parents, and go first.
        for name in left.clone().iter().rev() {
            let has_children = left
                .iter()
                .any(|other| other != name && is_within(other, name));
            let has_clones = clones[name].iter().any(|(_, clone)| left.contains(clone));
            if !has_children && !has_clones {
                left.remove(name);
                order.push(name.clone());
                count += 1;
            }
        }
        if count == 0 {
            let cloned = left.iter().flat_map(|name| &clones[name]);
            let cloned = cloned.filter(|(_, clone)| left.contains(clone));
            let reason = |(snapshot, clone): &(String, DatasetName)| {
                let snapshot = snapshot.clone();
                let error = ControlError::SnapshotCloned { snapshot };
                (clone.as_str().to_owned(), error)
            };
            return Ok(Err(cloned.map(reason).collect()));
        }
    }
    Ok(Ok(order))
}

/// A snapshot of a dataset that is held, if there is one.
fn held_snapshot(context: &Context, name: &DatasetName) -> Result<Option<String>, ControlError> {
    let (_, head) = context.registry.dataset(name)?;
    for entry in head.listed_snapshots().map_err(of_dsl)? {
        let snapshot = head.open_snapshot(&entry).map_err(of_dsl)?;
        if snapshot.hold_count().map_err(of_dsl)? > 0 {
            return Ok(Some(snapshot.name().as_str().to_owned()));
        }
    }
    Ok(None)
}

/// The clones of a dataset's snapshots, each with the snapshot's name.
fn clones_of(
    context: &Context,
    name: &DatasetName,
) -> Result<Vec<(String, DatasetName)>, ControlError> {
    let (imported, head) = context.registry.dataset(name)?;
    let mut clones = Vec::new();
    for entry in head.listed_snapshots().map_err(of_dsl)? {
        let snapshot = head.open_snapshot(&entry).map_err(of_dsl)?;
        for clone in snapshot.next_clones().map_err(of_dsl)? {
            let clone = imported.dsl().dataset_of(clone).map_err(of_dsl)?;
            // This is the clone's oldest snapshot, or the clone itself.
            let clone = clone.name().dataset();
            // A partly received state is destroyed together with its dataset.
            let is_received = clone.last_component() == RECEIVE_CHILD;
            if is_received && clone.parent().as_ref() == Some(name) {
                continue;
            }
            clones.push((snapshot.name().as_str().to_owned(), clone));
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
    if name.parent().is_none() {
        // The root dataset cannot be destroyed without its pool, so only its snapshots are.
        return destroy_snapshots_of(context, mounts, name, noted);
    }
    let (imported, dataset) = context.registry.dataset(name)?;
    if how.recursive {
        let received = dataset.directory().child(RECEIVE_CHILD.as_bytes());
        if let Some(received) = received.map_err(of_dsl)? {
            let name = received.name().clone();
            noted.change(name.as_str(), |by| {
                let name = name.clone();
                run(&imported, DestroyDataset { name }, by)
            })?;
        }
        destroy_snapshots_of(context, mounts, name, noted)?;
    }
    imported.end_head(dataset.id(), how.force)?;
    let damage = dataset.object_set().err().filter(DslError::is_damage);
    let guid = dataset.phys().guid;
    drop(dataset);
    let task = DestroyDataset { name: name.clone() };
    noted.change(name.as_str(), |by| run(&imported, task, by))?;
    if let Some(damage) = damage {
        log::warn!(
            "{name} was destroyed, but its object set cannot be read: {damage}; its space and that \
             of its intent log stay allocated until it can be read ('zpool get freeing')"
        );
    }
    context
        .registry
        .approvals
        .forget(imported.pool.guid(), guid);
    // A snapshot that waited for its last clone to go is destroyed with it.
    mounts.forget_snapshots(imported.name());
    Ok(())
}

/// The names of a dataset's snapshots.
fn snapshots_of(imported: &Imported, name: &DatasetName) -> Result<Vec<DatasetName>, ControlError> {
    let head = imported.dsl().dataset(name).map_err(of_dsl)?;
    let listed = head.listed_snapshots().map_err(of_dsl)?;
    let names = listed.iter().map(|snapshot| {
        let short = text(&snapshot.name);
        parse_name(&format!("{name}@{short}"))
    });
    names.collect()
}

/// Destroys all snapshots of a dataset, all or none.
fn destroy_snapshots_of(
    context: &Context,
    mounts: &Mounts,
    name: &DatasetName,
    noted: &mut NotedOnce<'_>,
) -> Result<(), ControlError> {
    let (imported, _) = context.registry.dataset(name)?;
    let names = snapshots_of(&imported, name)?;
    for snapshot in &names {
        unmount_dataset(mounts, snapshot.as_str(), (false, Elsewhere::EndUnused))?;
    }
    if names.is_empty() {
        return Ok(());
    }
    let _freed = imported.free_snapshots(&names)?;
    let task = DestroySnapshots {
        names,
        defer: false,
    };
    let destroyed = noted.change(name.as_str(), |by| run(&imported, task, by));
    mounts.forget_snapshots(imported.name());
    destroyed.map(drop)
}
