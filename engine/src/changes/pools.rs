//! Pools made and destroyed.

use super::datasets::file_system_format;
use super::encryption::{KeyGiven, new_encryption};
use super::pool_settings::{PoolSetting, pool_setting};
use super::properties::setting;
use super::replication::mismatch_within;
use super::{By, of_change, of_sync};
use crate::Engine;
use crate::candidates::hostid;
use crate::compatibility::compatibility;
use crate::errors::parse_name;
use crate::registry::Imported;
use cenote_control::model::{ControlError, MountOptions, NewPool, Response};
use cenote_dsl::property::parse::Purpose;
use cenote_dsl::property::table::Kinds;
use cenote_dsl::write::Setting;
use cenote_dsl::{FEATURE_VERSION, Stored};
use cenote_ondisk::features;
use cenote_ondisk::features::Feature;
use cenote_pool::{CreateError, CreateRequest, ImportOptions, create};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the pool properties of a command come to.
#[derive(Default)]
struct Properties {
    version: Option<u64>,
    ashift: Option<u32>,
    stored: Vec<(String, Stored)>,
    comment: Option<String>,
    compatibility: Option<String>,
    enabled: Vec<(&'static Feature, bool)>,
    cache_file: Option<String>,
    altroot: Option<String>,
}

impl Engine {
    pub(super) fn create_pool(&self, new: &NewPool, by: &By<'_>) -> Result<Response, ControlError> {
        let mismatch = mismatch_within(&new.vdevs);
        let devices = self.open_devices(&new.vdevs, mismatch, new.force)?;
        let name = new.temporary_name.as_ref().unwrap_or(&new.name);
        if self.registry.pool(name).is_ok() {
            return Err(ControlError::Exists { name: name.clone() });
        }
        let properties = Properties::read(new)?;
        let mut settings = root_settings(new)?;
        let root = parse_name(&new.name)?;
        let env = self.env.as_ref();
        let key = match new.dry_run {
            true => KeyGiven::Later,
            false => KeyGiven::Now(new.key.as_ref()),
        };
        let encryption = new_encryption(&root, None, &mut settings, key, env)?;
        self.check_mount_point(new, properties.altroot.as_deref())?;
        if new.dry_run {
            return Ok(Response::Done);
        }
        let features = chosen_features(new.no_features, &properties)?;
        let projects = features
            .iter()
            .any(|known| known.guid == features::PROJECT_QUOTA);
        let format = file_system_format(&mut settings, projects, env.wall_clock())?;
        let request = CreateRequest {
            name: new.name.clone(),
            version: properties.version(),
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
        };
        let mut options = ImportOptions {
            new_name: new.temporary_name.clone(),
            temporary_name: new.temporary_name.is_some(),
            hostid: hostid(),
            ..ImportOptions::default()
        };
        (options.cache_bytes, options.buffers) = self.memory.admit(&self.registry.all());
        let made = create(request, &options, Arc::clone(&self.env));
        let pool = made.map_err(|error| {
            self.memory.divide(&self.registry.all());
            of_create(error)
        })?;
        let altroot = properties.altroot.map(PathBuf::from);
        let imported = Imported::new(pool, altroot, self.random());
        imported.set_cache_file(properties.cache_file);
        let imported = self.registry.insert(imported)?;
        self.memory.divide(&self.registry.all());
        self.note_in_cache_file(&imported);
        self.obey_properties(&imported);
        self.events.post("sysevent.fs.zfs.pool_create", &imported);
        let (failures, done) = self.mount_below(&imported, None, &MountOptions::default());
        match failures.is_empty() {
            true => Ok(Response::Done),
            false => Ok(Response::Failures { failures, done }),
        }
    }

    /// Refuses a default mount point that has files in it (cli/contract-zpool 5).
    fn check_mount_point(&self, new: &NewPool, altroot: Option<&str>) -> Result<(), ControlError> {
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
        let place = match altroot {
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
            if imported.pool.suspended().is_some() {
                let pool = imported.name().to_owned();
                return Err(ControlError::Suspended { pool });
            }
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
    fn read(new: &NewPool) -> Result<Self, ControlError> {
        let mut properties = Self::default();
        for (name, value) in &new.properties {
            properties.take(pool_setting(name, value, true)?);
        }
        if let Some(root) = &new.altroot {
            properties.take(pool_setting("altroot", root, true)?);
        }
        // What is somewhere else for a while is not to be found by itself.
        if new.temporary_name.is_some() || properties.altroot.is_some() {
            properties
                .cache_file
                .get_or_insert_with(|| "none".to_owned());
        }
        Ok(properties)
    }

    fn version(&self) -> u64 {
        self.version.unwrap_or(FEATURE_VERSION)
    }

    fn take(&mut self, setting: PoolSetting) {
        match setting {
            PoolSetting::Ashift(shift) => {
                self.ashift = (shift > 0).then_some(shift);
                // Vdevs that are added later get it too.
                let shift = Stored::Number(shift.into());
                self.stored.push(("ashift".to_owned(), shift));
            }
            PoolSetting::Stored(name, value) => self.stored.push((name.to_owned(), value)),
            PoolSetting::User(name, value) => self.stored.push((name, Stored::Text(value))),
            PoolSetting::Comment(text) => {
                self.comment = Some(text).filter(|text| !text.is_empty());
            }
            PoolSetting::Compatibility(sets) => self.compatibility = Some(sets),
            PoolSetting::CacheFile(file) => self.cache_file = Some(file),
            PoolSetting::AltRoot(root) => self.altroot = Some(root),
            PoolSetting::Version(version) => self.version = Some(version),
            PoolSetting::BootFileSystem(_) => unreachable!("a new pool has none to boot from"),
            PoolSetting::Feature(feature, on) => self.enabled.push((feature, on)),
        }
    }
}

/// The properties of the root dataset.
fn root_settings(new: &NewPool) -> Result<Vec<Setting>, ControlError> {
    let purpose = Purpose {
        kinds: Kinds::FILESYSTEM,
        at_creation: true,
    };
    let settings = new.dataset_properties.iter();
    settings.map(|pair| setting(pair, purpose)).collect()
}

/// The features of a new pool: the usual ones, or those that the files name, and then what was
/// asked for one by one.
fn chosen_features(
    none: bool,
    properties: &Properties,
) -> Result<Vec<&'static Feature>, ControlError> {
    let has_none = none || properties.version() < FEATURE_VERSION;
    let mut features = match has_none {
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
pub(super) fn wanted_features(sets: Option<&str>) -> Result<Vec<&'static Feature>, ControlError> {
    let wanted = compatibility(sets.unwrap_or_default());
    let wanted = wanted.map_err(|error| ControlError::BadValue {
        name: "compatibility".to_owned(),
        reason: error.to_string(),
    })?;
    Ok(wanted.features)
}
