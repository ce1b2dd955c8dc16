//! Mounts that follow a change of their datasets: what is unmounted for it, and mounted again.

use super::make::{has_place, mount_wanted, mounts_by_itself};
use super::options::text_of;
use super::places::has_place_of;
use super::table::{Entry, Mounts};
use crate::errors::{of_dsl, parse_name};
use crate::imported::Imported;
use crate::table::Registry;
use cenote_control::model::{ControlError, MountOptions};
use cenote_dsl::{Dataset, DatasetName, Property};
use std::sync::Arc;

/// Unmounts these datasets from their own places, or none; those are below `name`.
pub fn unmount_for_change(
    mounts: &Mounts,
    imported: &Arc<Imported>,
    name: &DatasetName,
    (datasets, force): (&[String], bool),
) -> Result<(), ControlError> {
    let wanted = |entry: &Entry| entry.own_place && datasets.contains(&entry.dataset);
    for (_, mounted) in mounts.newest_first(wanted) {
        if let Err(error) = mounts.unmount_one(mounted, force) {
            // The first error is the one to report.
            let _ = mount_back(mounts, imported, name, datasets, false);
            return Err(error);
        }
    }
    Ok(())
}

/// What is mounted of a dataset and all below it where that follows from its mountpoint.
pub fn mounted_by_place_of(
    mounts: &Mounts,
    imported: &Arc<Imported>,
    name: &DatasetName,
) -> Result<Vec<String>, ControlError> {
    let mut names = mounted_below(mounts, name);
    let mut failure = None;
    names.retain(|below| {
        let head =
            parse_name(below).and_then(|below| imported.dsl().dataset(&below).map_err(of_dsl));
        match head.and_then(|head| has_place_of(&head, name)) {
            Ok(follows) => follows,
            Err(error) => {
                failure.get_or_insert(error);
                false
            }
        }
    });
    failure.map_or(Ok(names), Err)
}

/// The datasets from one downwards that are mounted at their own places.
pub fn mounted_below(mounts: &Mounts, name: &DatasetName) -> Vec<String> {
    mounts.names_below(name.as_str())
}

/// Unmounts what is mounted of a dataset and all below it, and mounts it again.
pub fn remount_below(
    mounts: &Mounts,
    imported: &Arc<Imported>,
    name: &DatasetName,
) -> Result<(), ControlError> {
    let before = mounted_below(mounts, name);
    unmount_for_change(mounts, imported, name, (&before, false))?;
    mount_back(mounts, imported, name, &before, false)
}

/// Mounts datasets at their own places again, as far as that can be.
pub fn mount_these(registry: &Registry, mounts: &Mounts, datasets: &[String]) {
    for dataset in datasets.iter().rev() {
        let found = parse_name(dataset).and_then(|name| {
            let (imported, _) = registry.dataset(&name)?;
            mount_back(
                mounts,
                &imported,
                &name,
                std::slice::from_ref(dataset),
                false,
            )
        });
        // The error that stopped the unmounting is the one to report.
        drop(found);
    }
}

/// Mounts again those of a dataset and its descendants that were mounted `before`, if they still
/// should be. With `others`, also mounts datasets whose mountpoint derives from this one, if that
/// is possible: as by OpenZFS, what was not mounted before may stay so.
pub fn mount_back(
    mounts: &Mounts,
    imported: &Arc<Imported>,
    name: &DatasetName,
    before: &[String],
    others: bool,
) -> Result<(), ControlError> {
    if before.is_empty() && !others {
        return Ok(());
    }
    let wanted = |head: &Dataset| {
        let was_mounted = before.iter().any(|name| name == head.name().as_str());
        let is_noauto = text_of(head, Property::CanMount).as_deref() == Some("noauto");
        let is_other = || others && has_place_of(head, name).unwrap_or(false);
        (was_mounted || is_other()) && mounts_by_itself(mounts, head)
            || was_mounted && is_noauto && has_place(mounts, head)
    };
    let options = MountOptions::default();
    let (failures, _) = mount_wanted(mounts, imported, Some(name), &options, &wanted);
    for (name, error) in failures {
        match before.contains(&name) {
            true => return Err(error),
            false => log::warn!("{name} is not mounted: {error}"),
        }
    }
    Ok(())
}
