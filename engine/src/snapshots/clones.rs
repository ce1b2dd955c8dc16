//! Clones made and promoted.

use crate::command::{By, run};
use crate::context::Context;
use crate::datasets::contents::{reservation_of_clone, set_contents, split_quotas};
use crate::datasets::create::with_parents;
use crate::errors::{of_dsl, parse_name};
use crate::mounts::make::mount_new;
use crate::mounts::table::Mounts;
use crate::registry::approvals::said;
use crate::registry::table::Registry;
use crate::values::{purpose_of, setting};
use cenote_control::model::{ControlError, Pair, Response};
use cenote_dsl::DatasetType;
use cenote_dsl::write::{CloneDataset, DestroyDataset, PromoteDataset};

/// Makes a clone; `names` are the snapshot's and the clone's, `how` says whether missing parents
/// are made and whether it stays unmounted.
pub(super) fn clone_snapshot(
    context: &Context,
    mounts: &Mounts,
    names: (&str, &str),
    properties: &[Pair],
    how: (bool, bool),
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let (origin, name) = (parse_name(names.0)?, parse_name(names.1)?);
    let (imported, snapshot) = context.registry.dataset(&origin)?;
    if name.pool() != origin.pool() {
        return Err(ControlError::SnapshotRefused {
            name: name.as_str().to_owned(),
            reason: "source and target pools differ".to_owned(),
        });
    }
    let (parents, unmounted) = how;
    if parents && imported.dsl().directory(&name).map_err(of_dsl)?.is_some() {
        return Ok(Response::Done);
    }
    let (pairs, quotas) = split_quotas(properties)?;
    let purpose = purpose_of(&snapshot)?;
    let settings = pairs
        .iter()
        .map(|pair| match (pair.0.as_str(), pair.1.as_str()) {
            ("refreservation", "auto") => {
                let bytes = reservation_of_clone(&imported, &snapshot)?;
                setting(&(pair.0.clone(), bytes.to_string()), purpose)
            }
            _ => setting(pair, purpose),
        });
    let properties = settings.collect::<Result<Vec<_>, _>>()?;
    let is_volume = snapshot.dataset_type().map_err(of_dsl)? == DatasetType::Volume;
    drop(snapshot);
    let said = said(&properties);
    let task = CloneDataset {
        origin,
        name: name.clone(),
        properties,
        created: None,
    };
    let task = by.making(task, &name);
    let clone = || {
        run(&imported, task, by)?;
        let (_, dataset) = context.registry.dataset(&name)?;
        set_contents(&imported, &dataset, &quotas, by).inspect_err(|_| {
            drop(dataset);
            // The first error is the one to report.
            let task = DestroyDataset { name: name.clone() };
            let _ = run(&imported, task, &by.unnoted());
        })
    };
    let approvals = &context.registry.approvals;
    let clone = || approvals.saying((&imported, &name), &said, clone);
    let mut failures = match parents {
        true => with_parents(context, mounts, (&imported, &name), by, clone)?.1,
        false => clone().map(|()| Vec::new())?,
    };
    let mut done = 0;
    if !is_volume && !unmounted {
        let outcomes = mount_new(mounts, &imported, &name, by.rights.is_some());
        failures.extend(outcomes.0);
        done = outcomes.1;
    }
    match failures.is_empty() {
        true => Ok(Response::Done),
        false => Ok(Response::Failures { failures, done }),
    }
}

/// Makes a clone the owner of the snapshots that it came from. Mounts stay: files are the same.
pub(super) fn promote(
    registry: &Registry,
    mounts: &Mounts,
    dataset: &str,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let name = parse_name(dataset)?;
    let (imported, clone) = registry.dataset(&name)?;
    if clone.is_snapshot() {
        return Err(ControlError::SnapshotRefused {
            name: dataset.to_owned(),
            reason: "snapshots can not be promoted".to_owned(),
        });
    }
    drop(clone);
    run(&imported, PromoteDataset { name }, by)?;
    // Snapshots went from one dataset to another.
    mounts.forget_snapshots(imported.name());
    Ok(Response::Done)
}
