//! Pools made.

use super::compatibility::wanted_features;
use super::set::obey_properties;
use super::settings::{PoolSetting, pool_setting};
use crate::clouds::opener::AllOpener;
use crate::clouds::rules::check_new;
use crate::clouds::table::{Held, is_in_store};
use crate::command::By;
use crate::context::Context;
use crate::datasets::contents::{
    ContentSetting, feature_of_quota, quota_too_new, set_contents, split_quotas,
};
use crate::datasets::format::{PROJECT_QUOTA, file_system_format};
use crate::devices::open::{Destination, open_devices};
use crate::devices::replication::mismatch_within;
use crate::errors::{of_create, parse_name};
use crate::host::hostid;
use crate::mounts::make::mount_below;
use crate::mounts::table::Mounts;
use crate::registry::approvals::said;
use crate::registry::imported::Imported;
use crate::registry::key_words::{KeyGiven, new_encryption};
use crate::values::{number_of, setting};
use cenote_control::model::{
    AllowedVdevs, ControlError, MountOptions, NewPool, Pair, Response, StoreRefusal,
};
use cenote_dsl::property::parse::Purpose;
use cenote_dsl::property::table::Kinds;
use cenote_dsl::write::{Setting, feature_needed};
use cenote_dsl::{FEATURE_VERSION, Stored};
use cenote_ondisk::features::{self, Feature, by_guid};
use cenote_pool::{CreateRequest, ImportOptions, Pool, create};
use cenote_posix::VERSION_QUOTAS;
use std::io::ErrorKind;
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

pub(crate) fn create_pool(
    context: &Context,
    mounts: &Mounts,
    new: &NewPool,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let mismatch = mismatch_within(&new.vdevs);
    check_new(&new.vdevs, false)?;
    let trial = (AllowedVdevs::all(new.force), new.dry_run);
    let devices = open_devices(context, &new.vdevs, mismatch, trial, Destination::NewPool)?;
    let name = new.temporary_name.as_ref().unwrap_or(&new.name);
    let claim = context.arriving.claim(&context.registry, name);
    let _claim = claim.ok_or_else(|| ControlError::Exists { name: name.clone() })?;
    let mut properties = Properties::read(new)?;
    let features = chosen_features(new.no_features, &properties)?;
    let (pairs, quotas) = split_quotas(&new.dataset_properties)?;
    let mut settings = root_settings(new, &pairs, &features)?;
    if is_any_in_store(new) {
        properties.default_to_autotrim();
    }
    let root = parse_name(&new.name)?;
    let env = context.env.as_ref();
    let key = match new.dry_run {
        true => KeyGiven::Later,
        false => KeyGiven::Now(new.key.as_ref()),
    };
    let encryption = new_encryption(&root, None, &mut settings, key, env)?;
    check_mount_point(new, properties.altroot.as_deref())?;
    check_values(&settings, &features)?;
    check_quotas(&quotas, &settings, &features)?;
    if new.dry_run {
        return Ok(Response::Done);
    }
    let projects = features.iter().any(|known| known.guid == PROJECT_QUOTA);
    let format = file_system_format(&mut settings, projects, (env.wall_clock(), by.owner()))?;
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
        // By which devices that come back are opened.
        opener: Arc::new(AllOpener::new(&context.clouds, &[], 0).0),
        ..ImportOptions::default()
    };
    (options.cache_bytes, options.buffers) = context.memory.admit(&context.registry.all());
    let said = (said(&request.root_properties), request.properties.clone());
    let pool = make(context, request, &options, devices.held)?;
    let altroot = properties.altroot.map(PathBuf::from);
    let imported = Imported::new(pool, altroot, context.random());
    imported.set_cache_file(properties.cache_file);
    say(context, &imported, &said);
    take_in(context, mounts, imported, (&quotas, by))
}

/// Makes a pool on devices, of which those in stores are kept if that succeeds.
fn make(
    context: &Context,
    request: CreateRequest,
    options: &ImportOptions,
    held: Held,
) -> Result<Pool, ControlError> {
    let made = create(request, options, Arc::clone(&context.env));
    let pool = made.map_err(|error| {
        context.divide_memory();
        of_create(error)
    })?;
    // Until it is uploaded, other hosts could not find the pool.
    let uploaded = held.upload();
    uploaded.map_err(|error| {
        let reason = error.to_string();
        StoreRefusal::Unreachable { reason }
    })?;
    held.keep();
    Ok(pool)
}

/// What was said about the root of a new pool, and its properties.
type SaidOfNew = (Vec<(String, Option<String>)>, Vec<(String, Stored)>);

/// Has the values that a new pool was given act.
fn say(context: &Context, imported: &Imported, (said, properties): &SaidOfNew) {
    let approvals = &context.registry.approvals;
    if let Ok(root) = imported.dsl().root() {
        approvals.said(imported, root.name(), said);
    }
    for (property, value) in properties {
        approvals.said_of_pool(imported, property, Some(value));
    }
}

/// Has a new pool among those that are imported, sets quotas of its root, and mounts it.
fn take_in(
    context: &Context,
    mounts: &Mounts,
    imported: Imported,
    (quotas, by): (&[ContentSetting], &By<'_>),
) -> Result<Response, ControlError> {
    let imported = context.registry.insert(imported)?;
    context.divide_memory();
    context.registry.note_in_cache_file(&imported);
    obey_properties(context, &imported);
    context
        .events
        .post("sysevent.fs.zfs.pool_create", &imported.pool);
    let (_, dataset) = context.registry.dataset(&parse_name(imported.name())?)?;
    set_contents(&imported, &dataset, quotas, by)?;
    drop(dataset);
    let (failures, done) = mount_below(mounts, &imported, None, &MountOptions::default());
    match failures.is_empty() {
        true => Ok(Response::Done),
        false => Ok(Response::Failures { failures, done }),
    }
}

/// Refuses a mount point that has files in it, or is no directory (cli/contract-zpool 5).
fn check_mount_point(new: &NewPool, altroot: Option<&str>) -> Result<(), ControlError> {
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
    let path = || place.to_string_lossy().into_owned();
    match std::fs::read_dir(&place).map(|mut entries| entries.next().is_some()) {
        Ok(true) => Err(ControlError::MountpointInUse { path: path() }),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            Err(ControlError::MountpointNotDirectory { path: path() })
        }
        Ok(false) | Err(_) => Ok(()),
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
        // A pool with a temporary name or root must not be imported automatically.
        if new.temporary_name.is_some() || properties.altroot.is_some() {
            properties
                .cache_file
                .get_or_insert_with(|| "none".to_owned());
        }
        Ok(properties)
    }

    /// Objects in a store cost money even when they are not needed any more.
    fn default_to_autotrim(&mut self) {
        if !self.stored.iter().any(|(name, _)| name == "autotrim") {
            self.stored.push(("autotrim".to_owned(), Stored::Number(1)));
        }
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

/// What the properties of a root dataset are for.
const ROOT_PURPOSE: Purpose = Purpose {
    kinds: Kinds::FILESYSTEM,
    at_creation: true,
};

/// The properties of the root dataset.
fn root_settings(
    new: &NewPool,
    pairs: &[Pair],
    features: &[&Feature],
) -> Result<Vec<Setting>, ControlError> {
    let settings = pairs.iter().map(|pair| setting(pair, ROOT_PURPOSE));
    let mut settings: Vec<Setting> = settings.collect::<Result<_, _>>()?;
    let mut names = pairs.iter().map(|(name, _)| name);
    let has_zstd = has(features, features::ZSTD_COMPRESS);
    if is_any_in_store(new) && has_zstd && !names.any(|name| name == "compression") {
        let compression = ("compression".to_owned(), "zstd".to_owned());
        settings.push(setting(&compression, ROOT_PURPOSE)?);
    }
    Ok(settings)
}

fn is_any_in_store(new: &NewPool) -> bool {
    let mut devices = new.vdevs.iter().flat_map(|vdev| &vdev.devices);
    devices.any(|device| is_in_store(device))
}

/// The features of a new pool: the default ones, or those in the files, and then those that were
/// requested one by one.
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
    // The features that an enabled one depends on are enabled with it, unless they were explicitly
    // disabled.
    let is_off = |guid: &str| {
        properties
            .enabled
            .iter()
            .any(|(f, on)| !on && f.guid == guid)
    };
    let mut at = 0;
    while let Some(feature) = features.get(at) {
        for guid in feature.dependencies {
            let needed = by_guid(guid).filter(|_| !has(&features, guid) && !is_off(guid));
            if let Some(needed) = needed {
                features.push(needed);
            }
        }
        at += 1;
    }
    Ok(features)
}

fn has(features: &[&Feature], guid: &str) -> bool {
    features.iter().any(|known| known.guid == guid)
}

/// Refuses properties whose values need a feature that the new pool does not have.
fn check_values(settings: &[Setting], features: &[&Feature]) -> Result<(), ControlError> {
    for setting in settings {
        let Some(guid) = feature_needed(setting).filter(|guid| !has(features, guid)) else {
            continue;
        };
        let feature = by_guid(guid).map_or(guid, |feature| feature.name);
        return Err(ControlError::BadValue {
            name: setting.name.clone(),
            reason: format!(
                "property '{}' needs the feature '{feature}', which the pool would not have",
                setting.name
            ),
        });
    }
    Ok(())
}

/// Refuses quotas that need a feature, or a version of the root, that the new pool does not have.
fn check_quotas(
    quotas: &[ContentSetting],
    settings: &[Setting],
    features: &[&Feature],
) -> Result<(), ControlError> {
    let is_old = number_of(settings, "version").is_some_and(|version| version < VERSION_QUOTAS);
    let is_missing = |quota: &&ContentSetting| {
        is_old || feature_of_quota(quota).is_some_and(|guid| !has(features, guid))
    };
    match quotas.iter().find(is_missing) {
        Some(quota) => Err(quota_too_new(quota)),
        None => Ok(()),
    }
}
