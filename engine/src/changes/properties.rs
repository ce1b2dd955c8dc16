//! Setting and inheriting properties of datasets and pools.

use super::contents::{automatic_reservation, set_contents, split};
use super::encryption::check_location;
use super::pool_settings::{PoolSetting, pool_setting};
use super::{By, NotedOnce, Nothing, run};
use crate::Engine;
use crate::datasets::walk_heads;
use crate::errors::{of_dsl, parse_name};
use crate::places::remove_places;
use crate::registry::Imported;
use cenote_control::model::properties::{DATASET, find};
use cenote_control::model::{ControlError, Pair, Response};
use cenote_dsl::property::parse::{Purpose, SettingError, inherit_setting, parse_setting};
use cenote_dsl::property::table::Kinds;
use cenote_dsl::write::{RevertProperty, SetPoolProperty, SetProperties, Setting};
use cenote_dsl::{Dataset, DatasetName, DatasetType, Stored};
use cenote_pool::Actor;
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

/// A value that a user gave, in the clients' terms if it is none.
pub(super) fn setting(pair: &Pair, purpose: Purpose) -> Result<Setting, ControlError> {
    parse_setting(&pair.0, &pair.1, purpose).map_err(|error| bad_setting(&pair.0, &error))
}

pub(super) fn bad_setting(name: &str, error: &SettingError) -> ControlError {
    match error {
        SettingError::Unknown(property) => ControlError::NoSuchProperty {
            property: property.clone(),
        },
        // As they are listed: without old names, and in short for many.
        SettingError::NotOneOf { name: property, .. } if find(DATASET, property).is_some() => {
            let listed = find(DATASET, property).map_or("", |info| info.values);
            ControlError::BadValue {
                name: name.to_owned(),
                reason: format!("'{property}' must be one of '{listed}'"),
            }
        }
        error => ControlError::BadValue {
            name: name.to_owned(),
            reason: error.to_string(),
        },
    }
}

pub(super) fn purpose_of(dataset: &Dataset) -> Result<Purpose, ControlError> {
    let kinds = match dataset.dataset_type().map_err(of_dsl)? {
        DatasetType::Filesystem => Kinds::FILESYSTEM,
        DatasetType::Volume => Kinds::VOLUME,
    };
    Ok(Purpose {
        kinds,
        at_creation: false,
    })
}

impl Engine {
    pub(super) fn set_properties(
        &self,
        datasets: &[String],
        properties: &[Pair],
        unmounted: bool,
        by: &By<'_>,
    ) -> Result<Response, ControlError> {
        let mut failures = Vec::new();
        let mut done = 0;
        let mut noted = NotedOnce::new(by);
        for name in datasets {
            match noted.change(name, |by| self.set_on_one(name, properties, unmounted, by)) {
                Ok(()) => done += 1,
                Err(error) => failures.push((name.clone(), error)),
            }
        }
        Ok(Response::Failures { failures, done })
    }

    fn set_on_one(
        &self,
        name: &str,
        properties: &[Pair],
        unmounted: bool,
        by: &By<'_>,
    ) -> Result<(), ControlError> {
        let name = parse_name(name)?;
        let (imported, dataset) = self.registry.dataset(&name)?;
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
        self.apply(&name, settings, unmounted, by)
    }

    /// Sets values and lets mounts follow.
    fn apply(
        &self,
        name: &DatasetName,
        settings: Vec<Setting>,
        unmounted: bool,
        by: &By<'_>,
    ) -> Result<(), ControlError> {
        let (imported, _) = self.registry.dataset(name)?;
        let effect = match unmounted {
            true => Effect::None,
            false => Effect::of(&settings),
        };
        let task = SetProperties {
            name: name.clone(),
            settings,
        };
        self.change_mounted(&imported, name, effect, || {
            run(&imported, task, by).map(drop)
        })
    }

    /// Changes properties and lets mounts follow.
    fn change_mounted(
        &self,
        imported: &Arc<Imported>,
        name: &DatasetName,
        effect: Effect,
        change: impl FnOnce() -> Result<(), ControlError>,
    ) -> Result<(), ControlError> {
        if let Effect::Place { moves } = effect
            && imported.pool.is_writable()
        {
            return self.change_place(imported, name, moves, change);
        }
        change()?;
        imported.refresh_settings();
        if effect == Effect::None || self.refresh_mounts(imported, name)? {
            return Ok(());
        }
        let remounted = self.remount_below(imported, name);
        remounted.map_err(|error| match error {
            // It is set, and holds from the next mount on.
            ControlError::MountBusy { .. } => ControlError::DatasetBusy {
                dataset: name.as_str().to_owned(),
            },
            error => error,
        })
    }

    pub(super) fn inherit_property(
        &self,
        datasets: &[String],
        property: &str,
        (recursive, received): (bool, bool),
        by: &By<'_>,
    ) -> Result<Response, ControlError> {
        // Values that came with a stream are in effect where no others are, inheritable or not.
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
            let names = match self.names_below(name, recursive) {
                Ok(names) => names,
                Err(error) => {
                    failures.push((name.clone(), error));
                    continue;
                }
            };
            for name in names {
                let changed = noted.change(name.as_str(), |by| match received {
                    true => self.revert(&name, property, by),
                    false => self.apply(&name, vec![taken_away.clone()], false, by),
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
    fn revert(&self, name: &DatasetName, property: &str, by: &By<'_>) -> Result<(), ControlError> {
        let (imported, _) = self.registry.dataset(name)?;
        let task = RevertProperty {
            name: name.clone(),
            property: property.to_owned(),
        };
        // Which value comes back is known when it has.
        let effect = Effect::of_property(property, None);
        self.change_mounted(&imported, name, effect, || {
            run(&imported, task, by).map(drop)
        })
    }

    /// Changes where a dataset is mounted, and with `moves` what has its place from it, or whether:
    /// unmounts, changes, and mounts again. With `moves` what was not mounted is, as by OpenZFS.
    fn change_place(
        &self,
        imported: &Arc<Imported>,
        name: &DatasetName,
        moves: bool,
        change: impl FnOnce() -> Result<(), ControlError>,
    ) -> Result<(), ControlError> {
        let places = self.mounts.derived_places(name.as_str());
        let before = match moves {
            true => self.mounted_by_place_of(imported, name)?,
            false => self.mounted_below(name),
        };
        self.unmount_for_change(imported, name, (&before, false))?;
        let done = change();
        imported.refresh_settings();
        if done.is_ok() && moves {
            remove_places(&places);
        }
        let mounted = self.mount_back(imported, name, &before, moves && done.is_ok());
        done.and(mounted)
    }

    /// A dataset, and with `recursive` all heads below it, parents first.
    pub(super) fn names_below(
        &self,
        name: &str,
        recursive: bool,
    ) -> Result<Vec<DatasetName>, ControlError> {
        let name = parse_name(name)?;
        let (imported, _) = self.registry.dataset(&name)?;
        if !recursive {
            return Ok(vec![name]);
        }
        let prefix = format!("{name}/");
        let mut names = Vec::new();
        walk_heads(imported.dsl(), |head| {
            let text = head.name().as_str();
            if text == name.as_str() || text.starts_with(&prefix) {
                names.push(head.name().clone());
            }
        });
        Ok(names)
    }

    pub(super) fn set_pool_property(
        &self,
        pool: &str,
        property: &str,
        value: &str,
        by: &By<'_>,
    ) -> Result<Response, ControlError> {
        let imported = self.registry.pool(pool)?;
        let setting = pool_setting(property, value, false)?;
        if let PoolSetting::CacheFile(file) = &setting {
            // It belongs to the import, and that of a pool that is only read has one as well.
            self.set_cache_file(&imported, file)?;
            if !imported.pool.is_writable() {
                return Ok(Response::Done);
            }
        }
        let imported = self.registry.writable_pool(pool)?;
        self.apply_pool_setting(&imported, setting, by)?;
        Ok(Response::Done)
    }

    /// Has a pool that was just opened do as its properties say.
    pub(crate) fn obey_properties(&self, imported: &Arc<Imported>) {
        self.obey_fail_mode(imported);
        self.obey_autoexpand(imported);
    }

    /// Sets the properties of a pool that its import was given.
    pub(crate) fn set_at_import(
        &self,
        imported: &Arc<Imported>,
        properties: &[(String, String)],
    ) -> Result<(), ControlError> {
        const OF_THE_IMPORT: [&str; 3] = ["readonly", "altroot", "cachefile"];
        if !imported.pool.is_writable() {
            return Ok(());
        }
        let by = By {
            actor: Actor::default(),
            // The import itself is what is noted.
            command: "",
        };
        let is_stored = |name: &str| !OF_THE_IMPORT.contains(&name) && !name.starts_with("cenote:");
        for (name, value) in properties.iter().filter(|(name, _)| is_stored(name)) {
            let setting = pool_setting(name, value, false)?;
            self.apply_pool_setting(imported, setting, &by)?;
        }
        Ok(())
    }

    fn apply_pool_setting(
        &self,
        imported: &Arc<Imported>,
        setting: PoolSetting,
        by: &By<'_>,
    ) -> Result<(), ControlError> {
        let stored = match setting {
            PoolSetting::Stored(name, value) => (name.to_owned(), value),
            PoolSetting::User(name, value) => (name, Stored::Text(value)),
            PoolSetting::Ashift(shift) => ("ashift".to_owned(), Stored::Number(shift.into())),
            PoolSetting::BootFileSystem(name) => {
                let object = boot_file_system(imported, &name)?;
                ("bootfs".to_owned(), Stored::Number(object))
            }
            other => return set_in_configuration(imported, other, by),
        };
        let (name, value) = stored;
        let (property, is_on) = (name.clone(), value == Stored::Number(1));
        run(imported, SetPoolProperty { name, value }, by)?;
        match property.as_str() {
            "autotrim" => imported.pool.set_autotrim(is_on),
            "autoexpand" => self.obey_autoexpand(imported),
            "failmode" => self.obey_fail_mode(imported),
            "multihost" => {
                let begun = imported.pool.set_multihost(is_on);
                begun.map_err(|error| ControlError::Io {
                    place: format!("the heartbeats of pool '{}': {error}", imported.name()),
                })?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// The object of the file system to boot from; 0 for none.
fn boot_file_system(imported: &Imported, name: &str) -> Result<u64, ControlError> {
    if name.is_empty() {
        return Ok(0);
    }
    let invalid = || ControlError::BadValue {
        name: "bootfs".to_owned(),
        reason: format!("'{name}' is an invalid name"),
    };
    let parsed = parse_name(name).map_err(|_| invalid())?;
    if parsed.pool() != imported.name() {
        return Err(invalid());
    }
    let dataset = imported.dsl().dataset(&parsed);
    let dataset = dataset.map_err(|_| ControlError::BadValue {
        name: "bootfs".to_owned(),
        reason: "no such pool or dataset".to_owned(),
    })?;
    match dataset.dataset_type().map_err(of_dsl)? {
        DatasetType::Filesystem => Ok(dataset.id().0),
        DatasetType::Volume => Err(ControlError::BadValue {
            name: "bootfs".to_owned(),
            reason: "property 'bootfs' not supported on volumes".to_owned(),
        }),
    }
}

/// Sets what stands in the pool's configuration or is a feature, and notes the command.
fn set_in_configuration(
    imported: &Arc<Imported>,
    setting: PoolSetting,
    by: &By<'_>,
) -> Result<(), ControlError> {
    let pool = &imported.pool;
    let set = match setting {
        PoolSetting::Comment(text) => pool.set_comment(&text, &by.actor, by.command),
        PoolSetting::Compatibility(sets) => pool.set_compatibility(&sets, &by.actor, by.command),
        PoolSetting::Version(_) => unreachable!("only a new pool is given it"),
        PoolSetting::Feature(feature, _) => {
            if pool.remarks().1.as_deref() == Some("legacy") {
                return Err(ControlError::BadValue {
                    name: feature.name.to_owned(),
                    reason: "the pool's 'compatibility' property is 'legacy'".to_owned(),
                });
            }
            pool.enable_feature(feature, &by.actor, by.command)
        }
        // The cache file is set already; the others are those of pools that are made.
        _ => pool.run_command(Nothing, &by.actor, by.command).map(drop),
    };
    set.map_err(|error| super::of_sync(imported.name(), error))
}
