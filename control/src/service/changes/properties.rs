//! Setting and inheriting properties of datasets and pools.

use super::contents::{automatic_reservation, set_contents, split};
use super::encryption::check_location;
use super::{By, run};
use crate::model::{ControlError, Pair, Response};
use crate::service::Engine;
use crate::service::datasets::walk_heads;
use crate::service::errors::parse_name;
use crate::service::registry::Imported;
use cenote_dsl::property::parse::{Purpose, SettingError, inherit_setting, parse_setting};
use cenote_dsl::property::table::Kinds;
use cenote_dsl::write::{RevertProperty, SetPoolProperty, SetProperties, Setting};
use cenote_dsl::{Dataset, DatasetName, DatasetType, Stored};
use std::sync::Arc;

/// Characters that a pool's comment may have.
const COMMENT_LENGTH_MAX: usize = 32;

/// Properties by which datasets are mounted: a change moves or remounts them.
const OF_MOUNTS: [&str; 12] = [
    "mountpoint",
    "canmount",
    "readonly",
    "atime",
    "relatime",
    "exec",
    "setuid",
    "devices",
    "xattr",
    "acltype",
    "snapdir",
    "overlay",
];

/// Those of them that a mount follows at once; mounting anew makes it show them.
const LIVE: [&str; 3] = ["atime", "relatime", "xattr"];

/// A value that a user gave, in the clients' terms if it is none.
pub(super) fn setting(pair: &Pair, purpose: Purpose) -> Result<Setting, ControlError> {
    parse_setting(&pair.0, &pair.1, purpose).map_err(|error| bad_setting(&pair.0, &error))
}

pub(super) fn bad_setting(name: &str, error: &SettingError) -> ControlError {
    match error {
        SettingError::Unknown(property) => ControlError::NoSuchProperty {
            property: property.clone(),
        },
        error => ControlError::BadValue {
            name: name.to_owned(),
            reason: error.to_string(),
        },
    }
}

pub(super) fn purpose_of(dataset: &Dataset) -> Result<Purpose, ControlError> {
    let kinds = match dataset.dataset_type()? {
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
        for name in datasets {
            match self.set_on_one(name, properties, unmounted, by) {
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
        // What may be mounted from now on is not mounted by that, nor unmounted.
        let off = Some(Stored::Number(0));
        let is_of_mounts = |setting: &Setting| match setting.name.as_str() {
            "canmount" => setting.value == off,
            name => OF_MOUNTS.contains(&name),
        };
        let remounts = !unmounted && settings.iter().any(is_of_mounts);
        let moves = settings.iter().any(|setting| setting.name == "mountpoint");
        let is_live = settings
            .iter()
            .all(|setting| LIVE.contains(&setting.name.as_str()));
        let task = SetProperties {
            name: name.clone(),
            settings,
        };
        run(&imported, task, by)?;
        imported.refresh_settings();
        if !remounts {
            return Ok(());
        }
        match self.remount_below(&imported, name, moves) {
            Err(ControlError::DatasetBusy { .. }) if is_live => Ok(()),
            result => result,
        }
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
        for name in datasets {
            let names = match self.names_below(name, recursive) {
                Ok(names) => names,
                Err(error) => {
                    failures.push((name.clone(), error));
                    continue;
                }
            };
            for name in names {
                let changed = match received {
                    true => self.revert(&name, property, by),
                    false => self.apply(&name, vec![taken_away.clone()], false, by),
                };
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
        run(&imported, task, by)?;
        imported.refresh_settings();
        match OF_MOUNTS.contains(&property) {
            true => self.remount_below(&imported, name, property == "mountpoint"),
            false => Ok(()),
        }
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
        if property == "cachefile" {
            // It belongs to the import, not to the pool: no history has it.
            self.set_cache_file(&imported, value)?;
            return Ok(Response::Done);
        }
        if let Some(done) = set_in_configuration(&imported, property, value, by) {
            return done;
        }
        let parsed = super::pools::pool_setting(property, value)?;
        if property == "multihost" && parsed == Stored::Number(1) {
            return Err(ControlError::Unsupported {
                what: "multihost, which wants heartbeats".to_owned(),
            });
        }
        let task = SetPoolProperty {
            name: property.to_owned(),
            value: parsed.clone(),
        };
        run(&imported, task, by)?;
        if property == "autotrim" {
            imported.pool.set_autotrim(parsed == Stored::Number(1));
        }
        Ok(Response::Done)
    }
}

/// Sets properties that stand in the pool's configuration or are features; `None` for others.
fn set_in_configuration(
    imported: &Arc<Imported>,
    property: &str,
    value: &str,
    by: &By<'_>,
) -> Option<Result<Response, ControlError>> {
    let bad = |reason: String| ControlError::BadValue {
        name: property.to_owned(),
        reason,
    };
    let pool = &imported.pool;
    let set = match (property, property.strip_prefix("feature@")) {
        ("comment", _) if value.len() > COMMENT_LENGTH_MAX => {
            return Some(Err(bad("comment must not exceed 32 characters".to_owned())));
        }
        ("comment", _) => pool.set_comment(value, &by.actor, by.command),
        ("compatibility", _) => pool.set_compatibility(value, &by.actor, by.command),
        (_, Some(_)) if value != "enabled" => {
            let reason = format!("property '{property}' can only be set to 'enabled'");
            return Some(Err(bad(reason)));
        }
        (_, Some(name)) => match cenote_ondisk::features::by_name(name) {
            Some(feature) => pool.enable_feature(feature, &by.actor, by.command),
            None => return Some(Err(bad(format!("invalid feature '{name}'")))),
        },
        _ => return None,
    };
    let done = set.map_err(|error| super::of_sync(imported.name(), error));
    Some(done.map(|()| Response::Done))
}
