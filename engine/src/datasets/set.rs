//! Setting and inheriting properties of datasets.

use super::contents::{automatic_reservation, set_contents, split};
use crate::command::{By, NotedOnce, run};
use crate::context::Context;
use crate::errors::parse_name;
use crate::mounts::change::refresh_mounts;
use crate::mounts::follow::{
    mount_back, mounted_below, mounted_by_place_of, remount_below, unmount_for_change,
};
use crate::mounts::places::remove_places;
use crate::mounts::table::Mounts;
use crate::registry::approvals::said;
use crate::registry::imported::Imported;
use crate::registry::key_words::{check_location, check_location_stays};
use crate::values::{bad_setting, purpose_of, setting};
use cenote_control::model::{ControlError, Pair, Response};
use cenote_dsl::property::parse::{SettingError, inherit_setting};
use cenote_dsl::write::{RevertProperty, SetProperties, Setting};
use cenote_dsl::{DatasetName, Stored};
use std::sync::Arc;

/// Properties that mounts follow while they are used, as far as that can be.
const LIVE: [&str; 9] = [
    "readonly", "atime", "relatime", "exec", "setuid", "devices", "xattr", "acltype", "snapdir",
];

/// What a change of properties asks of mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// Nothing.
    None,
    /// They allow something else.
    Live,
    /// They are unmounted, and with `moves` what has its place from the dataset is mounted.
    Place { moves: bool },
}

impl Effect {
    fn of_property(name: &str, value: Option<&Stored>) -> Self {
        match name {
            "mountpoint" => Self::Place { moves: true },
            // What may be mounted from now on is not mounted by that, nor unmounted.
            "canmount" if value.is_none_or(|value| *value == Stored::Number(0)) => {
                Self::Place { moves: false }
            }
            live if LIVE.contains(&live) => Self::Live,
            _ => Self::None,
        }
    }

    fn of(settings: &[Setting]) -> Self {
        let each = settings.iter();
        let effects = each.map(|setting| Self::of_property(&setting.name, setting.value.as_ref()));
        effects.fold(Self::None, |all, effect| match (all, effect) {
            (Self::Place { moves }, Self::Place { moves: also }) => Self::Place {
                moves: moves || also,
            },
            (place @ Self::Place { .. }, _) | (_, place @ Self::Place { .. }) => place,
            (Self::Live, _) | (_, Self::Live) => Self::Live,
            (Self::None, Self::None) => Self::None,
        })
    }
}

pub(crate) fn set_properties(
    context: &Context,
    mounts: &Mounts,
    datasets: &[String],
    properties: &[Pair],
    unmounted: bool,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let mut failures = Vec::new();
    let mut done = 0;
    let mut noted = NotedOnce::new(by);
    for name in datasets {
        match noted.change(name, |by| {
            set_on_one(context, mounts, name, properties, unmounted, by)
        }) {
            Ok(()) => done += 1,
            Err(error) => failures.push((name.clone(), error)),
        }
    }
    Ok(Response::Failures { failures, done })
}

fn set_on_one(
    context: &Context,
    mounts: &Mounts,
    name: &str,
    properties: &[Pair],
    unmounted: bool,
    by: &By<'_>,
) -> Result<(), ControlError> {
    let name = parse_name(name)?;
    let (imported, dataset) = context.registry.dataset(&name)?;
    let purpose = purpose_of(&dataset)?;
    if dataset.is_snapshot() && properties.iter().any(|(name, _)| !name.contains(':')) {
        return Err(ControlError::BadValue {
            name: name.as_str().to_owned(),
            reason: "this property can not be modified for snapshots".to_owned(),
        });
    }
    let (pairs, contents) = split(properties)?;
    let settings = pairs
        .iter()
        .map(|pair| match (pair.0.as_str(), pair.1.as_str()) {
            ("refreservation", "auto") => {
                let bytes = automatic_reservation(&imported, &dataset, None)?;
                setting(&(pair.0.clone(), bytes.to_string()), purpose)
            }
            _ => setting(pair, purpose),
        });
    let settings = settings.collect::<Result<Vec<_>, _>>()?;
    check_location(&dataset, &settings)?;
    set_contents(&imported, &dataset, &contents, by)?;
    // The task notes the command, although there may be nothing left to set.
    apply(context, mounts, &name, settings, unmounted, by)?;
    match properties.iter().any(|(name, _)| name == "volsize") {
        true => context.publisher.resize(&imported, &dataset),
        false => Ok(()),
    }
}

/// Sets values and lets mounts follow.
fn apply(
    context: &Context,
    mounts: &Mounts,
    name: &DatasetName,
    settings: Vec<Setting>,
    unmounted: bool,
    by: &By<'_>,
) -> Result<(), ControlError> {
    let (imported, _) = context.registry.dataset(name)?;
    let effect = match unmounted {
        true => Effect::None,
        false => Effect::of(&settings),
    };
    let said = said(&settings);
    let task = SetProperties {
        name: name.clone(),
        settings,
    };
    change_mounted(mounts, &imported, name, effect, || {
        let approvals = &context.registry.approvals;
        approvals.saying((&imported, name), &said, || run(&imported, task, by))?;
        Ok(())
    })
}

/// Changes properties and lets mounts follow.
fn change_mounted(
    mounts: &Mounts,
    imported: &Arc<Imported>,
    name: &DatasetName,
    effect: Effect,
    change: impl FnOnce() -> Result<(), ControlError>,
) -> Result<(), ControlError> {
    if let Effect::Place { moves } = effect
        && imported.pool.is_writable()
    {
        return change_place(mounts, imported, name, moves, change);
    }
    change()?;
    imported.refresh_settings();
    if effect == Effect::None || refresh_mounts(mounts, imported, name)? {
        return Ok(());
    }
    let remounted = remount_below(mounts, imported, name);
    remounted.map_err(|error| match error {
        // It is set, and holds from the next mount on.
        ControlError::MountBusy { .. } => ControlError::DatasetBusy {
            dataset: name.as_str().to_owned(),
        },
        error => error,
    })
}

pub(crate) fn inherit_property(
    context: &Context,
    mounts: &Mounts,
    datasets: &[String],
    property: &str,
    (recursive, received): (bool, bool),
    by: &By<'_>,
) -> Result<Response, ControlError> {
    // Received values are in effect if there are no local ones, inheritable or not.
    let taken_away = match (inherit_setting(property), received) {
        (Err(SettingError::NotInherited(_)), true) => Setting {
            name: property.to_owned(),
            value: None,
        },
        (setting, _) => setting.map_err(|error| bad_setting(property, &error))?,
    };
    let mut failures = Vec::new();
    let mut done = 0;
    let mut noted = NotedOnce::new(by);
    for name in datasets {
        let names = match context.registry.names_below(name, recursive) {
            Ok(names) => names,
            Err(error) => {
                failures.push((name.clone(), error));
                continue;
            }
        };
        for name in names {
            let changed = noted.change(name.as_str(), |by| match received {
                true => revert(context, mounts, &name, property, by),
                false => apply(context, mounts, &name, vec![taken_away.clone()], false, by),
            });
            match changed {
                Ok(()) => done += 1,
                Err(error) => failures.push((name.as_str().to_owned(), error)),
            }
        }
    }
    Ok(Response::Failures { failures, done })
}

/// Goes back to the value that came with a stream, and lets mounts follow.
fn revert(
    context: &Context,
    mounts: &Mounts,
    name: &DatasetName,
    property: &str,
    by: &By<'_>,
) -> Result<(), ControlError> {
    let (imported, dataset) = context.registry.dataset(name)?;
    check_location_stays(&dataset, property)?;
    drop(dataset);
    let task = RevertProperty {
        name: name.clone(),
        property: property.to_owned(),
    };
    // The value that takes effect is known only afterwards.
    let effect = Effect::of_property(property, None);
    change_mounted(mounts, &imported, name, effect, || {
        // `zfs inherit -S` does not name the received value, so it approves none.
        let said = [(property.to_owned(), None)];
        let approvals = &context.registry.approvals;
        approvals.saying((&imported, name), &said, || run(&imported, task, by))?;
        Ok(())
    })
}

/// Changes where a dataset is mounted, and with `moves` what has its place from it, or whether:
/// unmounts, changes, and mounts again. With `moves` what was not mounted is, as by OpenZFS.
fn change_place(
    mounts: &Mounts,
    imported: &Arc<Imported>,
    name: &DatasetName,
    moves: bool,
    change: impl FnOnce() -> Result<(), ControlError>,
) -> Result<(), ControlError> {
    let places = mounts.derived_places(name.as_str());
    let before = match moves {
        true => mounted_by_place_of(mounts, imported, name)?,
        false => mounted_below(mounts, name),
    };
    unmount_for_change(mounts, imported, name, (&before, false))?;
    let done = change();
    imported.refresh_settings();
    if done.is_ok() && moves {
        remove_places(&places);
    }
    let mounted = mount_back(mounts, imported, name, &before, moves && done.is_ok());
    done.and(mounted)
}
