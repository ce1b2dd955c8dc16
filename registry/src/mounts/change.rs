//! Changing the options of a mount that is in use: `mount -o remount`, and changed properties.

use super::options::{check_options, switches, temporary};
use super::table::{Mounts, Place};
use crate::errors::{of_dsl, parse_name};
use crate::imported::Imported;
use cenote_control::model::{ControlError, MountOptions, Response};
use cenote_dsl::DatasetName;
use std::path::Path;
use std::sync::Arc;

/// The option that changes a mount instead of making one.
pub(crate) const REMOUNT: &str = "remount";

/// Changes what a mount allows to what `options` say, in its place (`mount -o remount`).
pub(crate) fn mount_anew(
    mounts: &Mounts,
    imported: &Arc<Imported>,
    dataset: &str,
    at: Option<&str>,
    options: &MountOptions,
) -> Result<Response, ControlError> {
    check_writable(mounts, imported, (dataset, at), options)?;
    if dataset.contains('@') {
        return Ok(Response::Done);
    }
    let mut places = mounts.places_below(dataset).into_iter();
    let found = places.find(|place| {
        let is_there = match at {
            Some(at) => place.mounted.mount_point() == Path::new(at),
            None => place.own_place,
        };
        place.dataset == dataset && is_there
    });
    let mut place = found.ok_or_else(|| ControlError::NotMounted {
        target: at.unwrap_or(dataset).to_owned(),
    })?;
    place.options = options.clone();
    place.options.options.retain(|word| word != REMOUNT);
    check_options(&place.options.options)?;
    match change_in_place(mounts, imported, place)? {
        true => Ok(Response::Done),
        false => Err(ControlError::MountFailed {
            dataset: dataset.to_owned(),
            reason: "this takes unmounting it and mounting it with the other options".to_owned(),
        }),
    }
}

/// Refuses `remount,rw` of what can never be written to: a snapshot, whose mount has nothing else
/// to change either, and a dataset of a pool that is imported read-only.
fn check_writable(
    mounts: &Mounts,
    imported: &Imported,
    (dataset, at): (&str, Option<&str>),
    options: &MountOptions,
) -> Result<(), ControlError> {
    let is_snapshot = dataset.contains('@');
    let is_there = |at: &str| mounts.is_at(dataset, Path::new(at));
    if is_snapshot && !at.is_some_and(is_there) {
        return Err(ControlError::NotMounted {
            target: at.unwrap_or(dataset).to_owned(),
        });
    }
    let mut words = options.options.iter().rev();
    let last = words.find(|word| ["ro", "rw"].contains(&word.as_str()));
    if last.is_none_or(|word| word == "ro") || !is_snapshot && imported.pool.is_writable() {
        return Ok(());
    }
    let reason = match is_snapshot {
        true => "a snapshot is read-only",
        false => "the pool is imported read-only",
    };
    Err(ControlError::MountFailed {
        dataset: dataset.to_owned(),
        reason: reason.to_owned(),
    })
}

/// Changes what the mounts of a dataset, and of all below it, allow to what the properties say
/// now; options that were given for one at its own place are forgotten, as by OpenZFS.
///
/// Returns whether all could be changed where they are.
pub fn refresh_mounts(
    mounts: &Mounts,
    imported: &Arc<Imported>,
    name: &DatasetName,
) -> Result<bool, ControlError> {
    let mut is_done = true;
    for mut place in mounts.places_below(name.as_str()) {
        if place.own_place {
            place.options = MountOptions::default();
        }
        is_done &= change_in_place(mounts, imported, place)?;
    }
    Ok(is_done)
}

/// Changes what a mount allows. `false` if that is not possible while it is mounted.
fn change_in_place(
    mounts: &Mounts,
    imported: &Arc<Imported>,
    place: Place,
) -> Result<bool, ControlError> {
    let dataset = imported
        .dsl()
        .dataset(&parse_name(&place.dataset)?)
        .map_err(of_dsl)?;
    let mut allowed = switches(imported, &dataset, &place.options);
    allowed.read_only |= !imported.can_change(&dataset);
    if !allowed.read_only {
        let files = imported.files(&dataset)?;
        imported.drain(&dataset, &files)?;
    }
    if !place.mounted.change(&allowed)? {
        return Ok(false);
    }
    let temporary = temporary(imported, &place.options);
    mounts.update(&place.mounted, |entry| {
        entry.read_only = allowed.read_only;
        entry.temporary = temporary;
        entry.options = place.options;
    });
    Ok(true)
}
