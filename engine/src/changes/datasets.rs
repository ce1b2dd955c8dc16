//! Datasets made, renamed and destroyed.

use super::contents::{set_contents, split_new, volume_reservation};
use super::encryption::{KeyGiven, new_encryption};
use super::properties::setting;
use super::{By, of_change, run};
use crate::Engine;
use crate::errors::{of_dsl, parse_name};
use crate::places::remove_places;
use crate::registry::Imported;
use cenote_base::Env;
use cenote_base::parse_size;
use cenote_control::model::{ControlError, MountOptions, NewDataset, NewVolume, Pair, Response};
use cenote_dsl::property::parse::Purpose;
use cenote_dsl::property::table::Kinds;
use cenote_dsl::write::{CreateDataset, DestroyDataset, Format, RenameDataset, Setting};
use cenote_dsl::{DatasetName, Directory, DslError, Property, Stored};
use cenote_ondisk::features;
use cenote_ondisk::objset::ObjsetKind;
use cenote_posix::write::{FormatParams, PosixOwnerHook, format_new};
use cenote_posix::{CaseSensitivity, NameRules, Timestamp, VERSION_FUIDS, VERSION_MAX};
use std::sync::Arc;
use std::time::Duration;

/// How a dataset is renamed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Renaming {
    pub parents: bool,
    pub force: bool,
    pub unmounted: bool,
}

/// Blocks of a volume when nobody says otherwise.
const VOLUME_BLOCK_SIZE: u64 = 16 << 10;
/// Those that a volume can have.
const VOLUME_BLOCK_SIZES: std::ops::RangeInclusive<u64> = 512..=16 << 20;

impl Engine {
    pub(super) fn create_dataset(
        &self,
        new: &NewDataset,
        by: &By<'_>,
    ) -> Result<Response, ControlError> {
        let name = parse_name(&new.name)?;
        let imported = self.registry.pool(name.pool())?;
        let (properties, contents) = split_new(&new.properties)?;
        let new = &NewDataset {
            properties,
            ..new.clone()
        };
        if new.dry_run {
            return self.plan_dataset(&imported, name, new);
        }
        let exists = imported.dsl().directory(&name).map_err(of_dsl)?.is_some();
        if exists && new.parents {
            return Ok(Response::Done);
        }
        if new.parents {
            self.create_parents(&imported, &name, by)?;
        }
        let task = self.creation(&imported, name.clone(), new)?;
        run(&imported, task, by)?;
        let (_, dataset) = self.registry.dataset(&name)?;
        set_contents(&imported, &dataset, &contents, by)?;
        drop(dataset);
        if new.volume.is_some() || new.unmounted {
            return Ok(Response::Done);
        }
        let (failures, done) = self.mount_below(&imported, Some(&name), &MountOptions::default());
        match failures.is_empty() {
            true => Ok(Response::Done),
            false => Ok(Response::Failures { failures, done }),
        }
    }

    /// What would come of a dataset; nothing is made.
    fn plan_dataset(
        &self,
        imported: &Imported,
        name: DatasetName,
        new: &NewDataset,
    ) -> Result<Response, ControlError> {
        let dsl = imported.dsl();
        let is_missing = |name: &DatasetName| Ok::<_, DslError>(dsl.directory(name)?.is_none());
        let dataset = || name.as_str().to_owned();
        if !new.parents && !is_missing(&name).map_err(of_dsl)? {
            return Err(ControlError::Exists { name: dataset() });
        }
        let parent = name.parent();
        if !new.parents
            && parent
                .map_or(Ok(false), |parent| is_missing(&parent))
                .map_err(of_dsl)?
        {
            return Err(ControlError::NoParent { dataset: dataset() });
        }
        let is_reserved = |pair: &Pair| pair.0 == "refreservation";
        let has_own = new.properties.iter().any(is_reserved);
        let volume_size = match new.volume {
            Some(volume) => Some(rounded_size(&volume, &new.properties)?),
            None => None,
        };
        let task = self.creation(imported, name, new)?;
        let reserved = number_of(&task.properties, "refreservation");
        Ok(Response::Planned {
            volume_size,
            reserved: reserved.filter(|_| new.volume.is_some() && !has_own),
        })
    }

    /// The task that makes a dataset below what is there now; where its parent is missing, below
    /// the next of those above.
    fn creation(
        &self,
        imported: &Imported,
        name: DatasetName,
        new: &NewDataset,
    ) -> Result<CreateDataset, ControlError> {
        let mut parent = None;
        for above in std::iter::successors(name.parent(), DatasetName::parent) {
            parent = imported.dsl().directory(&above).map_err(of_dsl)?;
            if parent.is_some() {
                break;
            }
        }
        creation(imported, name, parent, new, self.env.as_ref())
    }

    fn create_parents(
        &self,
        imported: &Arc<Imported>,
        name: &DatasetName,
        by: &By<'_>,
    ) -> Result<(), ControlError> {
        let above = std::iter::successors(name.parent(), DatasetName::parent);
        let mut missing = Vec::new();
        for name in above {
            if imported.dsl().directory(&name).map_err(of_dsl)?.is_some() {
                break;
            }
            missing.push(name);
        }
        while let Some(name) = missing.pop() {
            let new = NewDataset {
                name: name.as_str().to_owned(),
                ..NewDataset::default()
            };
            let task = self.creation(imported, name.clone(), &new)?;
            run(imported, task, by)?;
            self.mount_below(imported, Some(&name), &MountOptions::default());
        }
        Ok(())
    }

    pub(super) fn destroy_dataset(
        &self,
        dataset: &str,
        recursive: bool,
        force: bool,
        dry_run: bool,
        by: &By<'_>,
    ) -> Result<Response, ControlError> {
        let mut names = self.names_below(dataset, recursive)?;
        if dry_run {
            return Ok(Response::Done);
        }
        let mut failures = Vec::new();
        let mut done = 0;
        // Children go before their parents.
        while let Some(name) = names.pop() {
            match self.destroy_one(&name, force, by) {
                Ok(()) => done += 1,
                Err(error) => {
                    failures.push((name.as_str().to_owned(), error));
                    break;
                }
            }
        }
        Ok(Response::Failures { failures, done })
    }

    fn destroy_one(
        &self,
        name: &DatasetName,
        force: bool,
        by: &By<'_>,
    ) -> Result<(), ControlError> {
        let (imported, dataset) = self.registry.dataset(name)?;
        let places = self.mounts.derived_places(name.as_str());
        self.unmount_dataset(name.as_str(), force)?;
        imported.close_head(dataset.id())?;
        drop(dataset);
        let task = DestroyDataset { name: name.clone() };
        run(&imported, task, by)?;
        remove_places(&places);
        Ok(())
    }

    pub(super) fn rename_dataset(
        &self,
        from: &str,
        to: &str,
        how: Renaming,
        by: &By<'_>,
    ) -> Result<Response, ControlError> {
        let (from, to) = (parse_name(from)?, parse_name(to)?);
        let (imported, _) = self.registry.dataset(&from)?;
        if how.parents {
            self.create_parents(&imported, &to, by)?;
        }
        let places = self.mounts.derived_places(from.as_str());
        let mounted = match how.unmounted {
            true => Vec::new(),
            false => {
                let mounted = self.mounted_below(&from);
                self.unmount_for_change(&imported, &from, (&mounted, how.force))?;
                mounted
            }
        };
        let task = RenameDataset {
            from: from.clone(),
            to: to.clone(),
        };
        let renamed = run(&imported, task, by);
        if renamed.is_ok() {
            self.mounts.rename(from.as_str(), to.as_str());
        }
        if !mounted.is_empty() {
            if renamed.is_ok() {
                remove_places(&places);
            }
            let name = if renamed.is_ok() { &to } else { &from };
            let options = MountOptions::default();
            let (failures, _) = self.mount_below(&imported, Some(name), &options);
            if let (Ok(_), Some((_, error))) = (&renamed, failures.into_iter().next()) {
                return Err(error);
            }
        }
        renamed.map(|_| Response::Done)
    }
}

/// The task that makes a dataset.
fn creation(
    imported: &Imported,
    name: DatasetName,
    parent: Option<Arc<Directory>>,
    new: &NewDataset,
    env: &dyn Env,
) -> Result<CreateDataset, ControlError> {
    let kinds = match new.volume {
        Some(_) => Kinds::VOLUME,
        None => Kinds::FILESYSTEM,
    };
    let purpose = Purpose {
        kinds,
        at_creation: true,
    };
    let settings = new.properties.iter().map(|pair| setting(pair, purpose));
    let mut settings = settings.collect::<Result<Vec<_>, _>>()?;
    let key = match new.dry_run {
        true => KeyGiven::Later,
        false => KeyGiven::Now(new.key.as_ref()),
    };
    let encryption = new_encryption(&name, parent.as_deref(), &mut settings, key, env)?;
    let (kind, format) = match new.volume {
        Some(volume) => {
            // The object's block size is the property: no table holds it.
            let named = take_number(&mut settings, "volblocksize");
            let block_size = volume.block_size.or(named).unwrap_or(VOLUME_BLOCK_SIZE);
            let size = volume_size(volume.size, block_size)?;
            let format = volume_format(size, block_size);
            let is_given = |name: &str| settings.iter().any(|one| one.name == name);
            if !volume.sparse && !is_given("refreservation") {
                let copies = match number_of(&settings, "copies") {
                    Some(copies) => copies,
                    None => inherited_copies(imported, parent.as_deref())?,
                };
                let bytes = volume_reservation(imported, size, block_size, copies);
                settings.push(Setting {
                    name: "refreservation".to_owned(),
                    value: Some(Stored::Number(bytes)),
                });
            }
            (ObjsetKind::Volume, format)
        }
        None => (
            ObjsetKind::Zfs,
            file_system_format(&mut settings, has_projects(imported), env.wall_clock())?,
        ),
    };
    Ok(CreateDataset {
        name,
        kind,
        properties: settings,
        encryption,
        format: Some(format),
        created: None,
    })
}

/// Takes a number out of the settings: it is stored elsewhere.
pub(super) fn take_number(settings: &mut Vec<Setting>, name: &str) -> Option<u64> {
    let at = settings.iter().position(|setting| setting.name == name)?;
    match settings.remove(at).value {
        Some(Stored::Number(number)) => Some(number),
        _ => None,
    }
}

/// Whether files of the pool have project ids.
fn has_projects(imported: &Imported) -> bool {
    imported
        .dsl()
        .features()
        .get(features::PROJECT_QUOTA)
        .is_some()
}

/// What fills a new file system, with the properties that only its contents hold.
pub(super) fn file_system_format(
    settings: &mut Vec<Setting>,
    projects: bool,
    now: Duration,
) -> Result<Format, ControlError> {
    let names = NameRules {
        normalization: take_number(settings, "normalization").unwrap_or(0),
        case: match take_number(settings, "casesensitivity") {
            Some(1) => CaseSensitivity::Insensitive,
            Some(2) => CaseSensitivity::Mixed,
            _ => CaseSensitivity::Sensitive,
        },
        utf8_only: take_number(settings, "utf8only").is_some_and(|number| number != 0),
    };
    let version = take_number(settings, "version").unwrap_or(VERSION_MAX);
    if version < VERSION_FUIDS && names != NameRules::default() {
        return Err(ControlError::BadValue {
            name: "version".to_owned(),
            reason: "pool must be upgraded to set this property or value".to_owned(),
        });
    }
    let params = FormatParams {
        names: NameRules {
            // Names that are normalized must be text.
            utf8_only: names.utf8_only || names.normalization != 0,
            ..names
        },
        now: Timestamp {
            seconds: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: now.subsec_nanos(),
        },
        // Whoever the daemon runs as: root's for root, and others can use what they made.
        uid: rustix::process::geteuid().as_raw().into(),
        gid: rustix::process::getegid().as_raw().into(),
        version,
        projects,
        ..FormatParams::default()
    };
    Ok(Box::new(move |set, tx| {
        set.set_owner_hook(Arc::new(PosixOwnerHook));
        let made = format_new(set, tx, &params);
        made.map(drop).map_err(|error| DslError::Format {
            reason: error.to_string(),
        })
    }))
}

/// The size of a new volume whose block size may be among its properties.
fn rounded_size(volume: &NewVolume, properties: &[Pair]) -> Result<u64, ControlError> {
    let named = properties.iter().find(|(name, _)| name == "volblocksize");
    let named = named.and_then(|(_, text)| parse_size(text).ok());
    let block_size = volume.block_size.or(named).unwrap_or(VOLUME_BLOCK_SIZE);
    volume_size(volume.size, block_size)
}

/// The size of a new volume: a whole number of blocks.
fn volume_size(size: u64, block_size: u64) -> Result<u64, ControlError> {
    let bad = |name: &str, reason: &str| ControlError::BadValue {
        name: name.to_owned(),
        reason: reason.to_owned(),
    };
    if !block_size.is_power_of_two() || !VOLUME_BLOCK_SIZES.contains(&block_size) {
        let reason = "'volblocksize' must be power of 2 from 512B to 16M";
        return Err(bad("volblocksize", reason));
    }
    let size = size.checked_next_multiple_of(block_size);
    let size = size.filter(|size| *size > 0);
    size.ok_or_else(|| bad("volsize", "volume size cannot be zero"))
}

/// What fills a new volume.
fn volume_format(size: u64, block_size: u64) -> Format {
    Box::new(move |set, tx| {
        cenote_volume::format_new(set, tx, size, block_size).map_err(|error| DslError::Format {
            reason: error.to_string(),
        })
    })
}

fn number_of(settings: &[Setting], name: &str) -> Option<u64> {
    let found = settings.iter().find(|setting| setting.name == name)?;
    match found.value {
        Some(Stored::Number(number)) => Some(number),
        _ => None,
    }
}

/// The copies of blocks that a dataset below its parent gets.
fn inherited_copies(imported: &Imported, parent: Option<&Directory>) -> Result<u64, ControlError> {
    let Some(parent) = parent else {
        return Ok(1);
    };
    let parent = imported.dsl().dataset(parent.name()).map_err(of_dsl)?;
    Ok(parent.stored_number(Property::Copies).map_err(of_dsl)?)
}

impl Imported {
    /// Closes a head that is open for writing, so that it can be destroyed.
    pub(super) fn close_head(&self, id: cenote_base::ObjectId) -> Result<(), ControlError> {
        self.heads.close(self, id).map_err(|error| match error {
            cenote_pool::SyncError::Dsl(error) => of_change(error),
            error => super::of_sync(self.name(), error),
        })
    }
}
