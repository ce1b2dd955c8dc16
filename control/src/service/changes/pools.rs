//! Pools made and destroyed.

use super::datasets::file_system_format;
use super::encryption::new_encryption;
use super::properties::setting;
use super::replication::mismatch_within;
use super::{By, of_change, of_sync};
use crate::model::{ControlError, MountOptions, NewPool, Pair, Response};
use crate::service::Engine;
use crate::service::candidates::hostid;
use crate::service::errors::parse_name;
use crate::service::registry::Imported;
use cenote_dsl::Stored;
use cenote_dsl::property::parse::{Purpose, parse_size};
use cenote_dsl::property::table::Kinds;
use cenote_ondisk::features::{self, Feature};
use cenote_pool::{CreateError, CreateRequest, ImportOptions, create, default_features};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Directories with lists of features by name (`compatibility`).
const COMPATIBILITY: [&str; 2] = ["/etc/zfs/compatibility.d", "/usr/share/zfs/compatibility.d"];
/// Bytes of such a file.
const COMPATIBILITY_SIZE_MAX: u64 = 16 << 10;
const COMMENT_LENGTH_MAX: usize = 32;

/// What the pool properties of a command come to.
#[derive(Default)]
struct Properties {
    ashift: Option<u32>,
    stored: Vec<(String, Stored)>,
    comment: Option<String>,
    compatibility: Option<String>,
    enabled: Vec<(&'static Feature, bool)>,
    cache_file: Option<String>,
}

impl Engine {
    pub(super) fn create_pool(&self, new: &NewPool, by: &By<'_>) -> Result<Response, ControlError> {
        let mismatch = mismatch_within(&new.vdevs);
        let devices = self.open_devices(&new.vdevs, mismatch, new.force)?;
        let name = new.temporary_name.as_ref().unwrap_or(&new.name);
        if self.registry.pool(name).is_ok() {
            return Err(ControlError::Exists { name: name.clone() });
        }
        let properties = Properties::read(&new.properties)?;
        let purpose = Purpose {
            kinds: Kinds::FILESYSTEM,
            at_creation: true,
        };
        let settings = new.dataset_properties.iter();
        let settings = settings.map(|pair| setting(pair, purpose));
        let mut settings = settings.collect::<Result<Vec<_>, _>>()?;
        let root = parse_name(&new.name)?;
        let env = self.env.as_ref();
        let encryption = new_encryption(&root, None, &mut settings, new.key.as_ref(), env)?;
        self.check_mount_point(new)?;
        if new.dry_run {
            return Ok(Response::Done);
        }
        let format = file_system_format(&mut settings, self.env.wall_clock())?;
        let features = chosen_features(new.no_features, &properties)?;
        let request = CreateRequest {
            name: new.name.clone(),
            vdevs: devices.vdevs,
            spares: devices.spares,
            cache_devices: devices.caches,
            ashift: properties.ashift,
            features,
            properties: properties.stored,
            comment: properties.comment,
            compatibility: properties.compatibility,
            root_properties: settings,
            encryption,
            format: Some(format),
            actor: by.actor.clone(),
            command: Some(by.command.to_owned()),
            temporary_name: new.temporary_name.is_some(),
        };
        let mut options = ImportOptions {
            new_name: new.temporary_name.clone(),
            hostid: hostid(),
            ..ImportOptions::default()
        };
        (options.cache_bytes, options.buffers) = self.memory.admit(&self.registry.all());
        let made = create(request, &options, Arc::clone(&self.env));
        let pool = made.map_err(|error| {
            self.memory.divide(&self.registry.all());
            of_create(error)
        })?;
        let altroot = new.altroot.as_ref().map(PathBuf::from);
        let imported = Imported::new(pool, altroot, self.random());
        imported.set_cache_file(properties.cache_file);
        let imported = self.registry.insert(imported)?;
        self.memory.divide(&self.registry.all());
        self.note_in_cache_file(&imported);
        self.events.post("sysevent.fs.zfs.pool_create", &imported);
        let (failures, done) = self.mount_below(&imported, None, &MountOptions::default());
        match failures.is_empty() {
            true => Ok(Response::Done),
            false => Ok(Response::Failures { failures, done }),
        }
    }

    /// Refuses a default mount point that has files in it (cli/contract-zpool 5).
    fn check_mount_point(&self, new: &NewPool) -> Result<(), ControlError> {
        let given = |name: &str| {
            let mut pairs = new.dataset_properties.iter();
            pairs
                .find(|(key, _)| key == name)
                .map(|(_, value)| value.clone())
        };
        let place = given("mountpoint").unwrap_or_else(|| format!("/{}", new.name));
        if !place.starts_with('/') || given("canmount").as_deref() == Some("off") {
            return Ok(());
        }
        let place = match &new.altroot {
            Some(root) => Path::new(root).join(place.trim_start_matches('/')),
            None => PathBuf::from(place),
        };
        let entries = std::fs::read_dir(&place).ok();
        match entries.and_then(|mut entries| entries.next()) {
            Some(_) => Err(ControlError::MountpointInUse {
                path: place.to_string_lossy().into_owned(),
            }),
            None => Ok(()),
        }
    }

    pub(super) fn destroy_pool(&self, pool: &str, force: bool) -> Result<Response, ControlError> {
        let imported = self.registry.writable_pool(pool)?;
        self.unmount_pool(&imported, force)?;
        imported.close_all_heads()?;
        let destroyed = imported.pool.destroy();
        destroyed.map_err(|error| of_sync(pool, error))?;
        self.registry.remove(pool);
        self.memory.divide(&self.registry.all());
        self.note_in_cache_file(&imported);
        self.events.post("sysevent.fs.zfs.pool_destroy", &imported);
        Ok(Response::Done)
    }

    pub(super) fn sync_pools(&self, pools: &[String]) -> Result<Response, ControlError> {
        let (found, failures) = self.pools_named(pools);
        if let Some((_, error)) = failures.into_iter().next() {
            return Err(error);
        }
        for imported in found {
            let synced = imported.pool.sync();
            synced.map_err(|error| of_sync(imported.name(), error))?;
        }
        Ok(Response::Done)
    }
}

pub(super) fn of_create(error: CreateError) -> ControlError {
    match error {
        CreateError::Dsl(error) => of_change(error),
        error => ControlError::BadValue {
            name: String::new(),
            reason: error.to_string(),
        },
    }
}

impl Properties {
    fn read(pairs: &[Pair]) -> Result<Self, ControlError> {
        let mut properties = Self::default();
        for (name, value) in pairs {
            properties.read_one(name, value)?;
        }
        Ok(properties)
    }

    fn read_one(&mut self, name: &str, value: &str) -> Result<(), ControlError> {
        let bad = |reason: String| ControlError::BadValue {
            name: name.to_owned(),
            reason,
        };
        if let Some(feature) = name.strip_prefix("feature@") {
            let known = features::by_name(feature);
            let known = known.ok_or_else(|| bad(format!("invalid feature '{feature}'")))?;
            let on = match value {
                "enabled" => true,
                "disabled" => false,
                _ => {
                    let text =
                        format!("property '{name}' can only be set to 'enabled' or 'disabled'");
                    return Err(bad(text));
                }
            };
            self.enabled.push((known, on));
            return Ok(());
        }
        match name {
            "ashift" => self.ashift = ashift(name, value)?,
            "cachefile" => {
                crate::service::cache_file::check(value)?;
                self.cache_file = Some(value.to_owned());
            }
            "comment" if value.len() > COMMENT_LENGTH_MAX => {
                return Err(bad("comment must not exceed 32 characters".to_owned()));
            }
            "comment" => self.comment = Some(value.to_owned()),
            "compatibility" => self.compatibility = Some(value.to_owned()),
            _ => {
                let stored = pool_setting(name, value)?;
                self.stored.push((name.to_owned(), stored));
            }
        }
        Ok(())
    }
}

/// log2 of an allocation unit, from a command's property; `None` to choose by the devices.
pub(super) fn ashift(name: &str, value: &str) -> Result<Option<u32>, ControlError> {
    match parse_size(value) {
        Ok(0) => Ok(None),
        Ok(shift @ 9..=16) => Ok(u32::try_from(shift).ok()),
        _ => Err(ControlError::BadValue {
            name: name.to_owned(),
            reason: format!(
                "property '{name}' number '{value}' is invalid; \
                 only values between 9 and 16 are allowed"
            ),
        }),
    }
}

/// A pool property's value as it is stored (format/3c 6).
pub(super) fn pool_setting(name: &str, value: &str) -> Result<Stored, ControlError> {
    let bad = |reason: String| ControlError::BadValue {
        name: name.to_owned(),
        reason,
    };
    if name.contains(':') {
        return Ok(Stored::Text(value.to_owned()));
    }
    let words: &[(&str, u64)] = match name {
        "autoexpand" | "autoreplace" | "listsnapshots" | "multihost" | "autotrim"
        | "delegation" => &[("off", 0), ("on", 1)],
        "failmode" => &[("wait", 0), ("continue", 1), ("panic", 2)],
        "dedup_table_quota" => {
            return match value {
                "none" => Ok(Stored::Number(0)),
                "auto" => Ok(Stored::Number(u64::MAX)),
                value => match parse_size(value) {
                    Ok(size) => Ok(Stored::Number(size)),
                    Err(error) => Err(bad(error.to_string())),
                },
            };
        }
        _ => {
            return Err(ControlError::BadValue {
                name: name.to_owned(),
                reason: format!("property '{name}' is not a valid pool or vdev property"),
            });
        }
    };
    let found = words.iter().find(|(word, _)| *word == value);
    let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let found = found.ok_or_else(|| {
        bad(format!(
            "property '{name}' must be one of '{}'",
            names.join(" | ")
        ))
    })?;
    Ok(Stored::Number(found.1))
}

/// The features of a new pool: the usual ones, or those that the files name, and then what was
/// asked for one by one.
fn chosen_features(
    none: bool,
    properties: &Properties,
) -> Result<Vec<&'static Feature>, ControlError> {
    let mut features = match none {
        true => Vec::new(),
        false => wanted_features(properties.compatibility.as_deref())?,
    };
    for (feature, on) in &properties.enabled {
        features.retain(|known| known.guid != feature.guid);
        if *on {
            features.push(feature);
        }
    }
    Ok(features)
}

/// The features that pools with this `compatibility` property are to have.
pub(super) fn wanted_features(
    compatibility: Option<&str>,
) -> Result<Vec<&'static Feature>, ControlError> {
    let mut features = default_features();
    match compatibility {
        None | Some("off") => {}
        Some("legacy") => features.clear(),
        Some(files) => {
            for file in files.split(',') {
                let names = compatible(file)?;
                features.retain(|feature| names.iter().any(|name| name == feature.name));
            }
        }
    }
    Ok(features)
}

/// The names in a file of compatible features.
fn compatible(file: &str) -> Result<Vec<String>, ControlError> {
    let bad = || ControlError::BadValue {
        name: "compatibility".to_owned(),
        reason: format!("property 'compatibility' has no readable file '{file}'"),
    };
    let paths: Vec<PathBuf> = match file.starts_with('/') {
        true => vec![PathBuf::from(file)],
        false => COMPATIBILITY
            .iter()
            .map(|place| Path::new(place).join(file))
            .collect(),
    };
    let path = paths
        .into_iter()
        .find(|path| path.is_file())
        .ok_or_else(bad)?;
    if std::fs::metadata(&path).map_err(|_| bad())?.len() > COMPATIBILITY_SIZE_MAX {
        return Err(bad());
    }
    let text = std::fs::read_to_string(path).map_err(|_| bad())?;
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default());
    let words = lines.flat_map(|line| line.split([' ', '\t', ',']));
    let names = words.filter(|word| !word.is_empty()).map(str::to_owned);
    Ok(names.collect())
}
