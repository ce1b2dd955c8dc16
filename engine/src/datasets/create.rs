//! Datasets made.

use super::contents::{set_contents, split_quotas, volume_reservation};
use super::destroy::{Destruction, destroy_dataset};
use super::format::{
    PROJECT_QUOTA, VOLUME_BLOCK_SIZE, file_system_format, volume_format, volume_size,
};
use crate::command::{By, run};
use crate::context::Context;
use crate::errors::{of_dsl, parse_name};
use crate::mounts::make::mount_new;
use crate::mounts::table::Mounts;
use crate::registry::approvals::said;
use crate::registry::imported::Imported;
use crate::registry::key_words::{KeyGiven, new_encryption};
use crate::values::{number_of, setting, take_number};
use cenote_base::{Env, parse_size};
use cenote_control::model::{ControlError, NewDataset, NewVolume, Pair, Response};
use cenote_dsl::property::parse::Purpose;
use cenote_dsl::property::table::Kinds;
use cenote_dsl::write::{CreateDataset, DestroyDataset, Setting};
use cenote_dsl::{DatasetName, DatasetType, Directory, DslError, Property, Stored};
use cenote_ondisk::objset::ObjsetKind;
use std::sync::Arc;

pub(crate) fn create_dataset(
    context: &Context,
    mounts: &Mounts,
    new: &NewDataset,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let name = parse_name(&new.name)?;
    let imported = context.registry.pool(name.pool())?;
    let (properties, quotas) = split_quotas(&new.properties)?;
    let new = &NewDataset {
        properties,
        ..new.clone()
    };
    if new.dry_run {
        return plan_dataset(context, &imported, name, new, by);
    }
    let exists = imported.dsl().directory(&name).map_err(of_dsl)?.is_some();
    if exists && new.parents {
        return as_asked(context, &name, new);
    }
    let create = || {
        let task = creation_below(context, &imported, name.clone(), new, by)?;
        let said = said(&task.properties);
        let task = by.making(task, &name);
        let approvals = &context.registry.approvals;
        approvals.saying((&imported, &name), &said, || run(&imported, task, by))?;
        let (_, dataset) = context.registry.dataset(&name)?;
        set_contents(&imported, &dataset, &quotas, by).inspect_err(|_| {
            drop(dataset);
            // The first error is the one to report.
            let task = DestroyDataset { name: name.clone() };
            let _ = run(&imported, task, &by.unnoted());
        })
    };
    let mut failures = match new.parents {
        true => with_parents(context, mounts, (&imported, &name), by, create)?.1,
        false => create().map(|()| Vec::new())?,
    };
    let mut done = 0;
    if new.volume.is_none() && !new.unmounted {
        let outcomes = mount_new(mounts, &imported, &name, by.rights.is_some());
        failures.extend(outcomes.0);
        done = outcomes.1;
    }
    match failures.is_empty() {
        true => Ok(Response::Done),
        false => Ok(Response::Failures { failures, done }),
    }
}

/// An existing dataset of the requested kind counts as created.
fn as_asked(
    context: &Context,
    name: &DatasetName,
    new: &NewDataset,
) -> Result<Response, ControlError> {
    let (_, dataset) = context.registry.dataset(name)?;
    let is_volume = dataset.dataset_type().map_err(of_dsl)? == DatasetType::Volume;
    match is_volume == new.volume.is_some() {
        true => Ok(Response::Done),
        false => Err(ControlError::Exists {
            name: name.as_str().to_owned(),
        }),
    }
}

/// The plan for a dataset; nothing is made.
fn plan_dataset(
    context: &Context,
    imported: &Imported,
    name: DatasetName,
    new: &NewDataset,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let dsl = imported.dsl();
    let is_missing = |name: &DatasetName| Ok::<_, DslError>(dsl.directory(name)?.is_none());
    let dataset = || name.as_str().to_owned();
    if new.parents && !is_missing(&name).map_err(of_dsl)? {
        as_asked(context, &name, new)?;
    }
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
    let task = creation_below(context, imported, name, new, by)?;
    let reserved = number_of(&task.properties, "refreservation");
    Ok(Response::Planned {
        volume_size,
        reserved: reserved.filter(|_| new.volume.is_some() && !has_own),
    })
}

/// The task that makes a dataset below what is there now; where its parent is missing, below
/// the next of those above.
fn creation_below(
    context: &Context,
    imported: &Imported,
    name: DatasetName,
    new: &NewDataset,
    by: &By<'_>,
) -> Result<CreateDataset, ControlError> {
    let mut parent = None;
    for above in std::iter::successors(name.parent(), DatasetName::parent) {
        parent = imported.dsl().directory(&above).map_err(of_dsl)?;
        if parent.is_some() {
            break;
        }
    }
    creation(imported, name, parent, new, (context.env.as_ref(), by))
}

/// Makes `change`, which needs the parents of a dataset; those that were missing are made first,
/// and go again if it fails. Returns which of them cannot be mounted, and why, as well.
pub(crate) fn with_parents<T>(
    context: &Context,
    mounts: &Mounts,
    (imported, name): (&Arc<Imported>, &DatasetName),
    by: &By<'_>,
    change: impl FnOnce() -> Result<T, ControlError>,
) -> Result<(T, Vec<(String, ControlError)>), ControlError> {
    let mut made = Vec::new();
    let parents = create_parents(context, mounts, (imported, name), by, &mut made);
    let changed = parents.and_then(|failures| Ok((change()?, failures)));
    if changed.is_err() {
        let how = Destruction {
            recursive: false,
            clones: false,
            force: false,
            dry_run: false,
        };
        for name in made.iter().rev() {
            // A dataset that is no longer empty stays; the first error is the one to report.
            let _ = destroy_dataset(context, mounts, name.as_str(), how, &by.undoing());
        }
    }
    changed
}

fn create_parents(
    context: &Context,
    mounts: &Mounts,
    (imported, name): (&Arc<Imported>, &DatasetName),
    by: &By<'_>,
    made: &mut Vec<DatasetName>,
) -> Result<Vec<(String, ControlError)>, ControlError> {
    let above = std::iter::successors(name.parent(), DatasetName::parent);
    let mut missing = Vec::new();
    for name in above {
        if imported.dsl().directory(&name).map_err(of_dsl)?.is_some() {
            break;
        }
        missing.push(name);
    }
    let mut failures = Vec::new();
    while let Some(name) = missing.pop() {
        let new = NewDataset {
            name: name.as_str().to_owned(),
            ..NewDataset::default()
        };
        let task = creation_below(context, imported, name.clone(), &new, by)?;
        run(imported, by.making(task, &name), by)?;
        made.push(name.clone());
        failures.extend(mount_new(mounts, imported, &name, by.rights.is_some()).0);
    }
    Ok(failures)
}

/// The task that makes a dataset.
fn creation(
    imported: &Imported,
    name: DatasetName,
    parent: Option<Arc<Directory>>,
    new: &NewDataset,
    (env, by): (&dyn Env, &By<'_>),
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
            file_system_format(
                &mut settings,
                has_projects(imported),
                (env.wall_clock(), by.owner()),
            )?,
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

/// Whether files of the pool have project ids.
fn has_projects(imported: &Imported) -> bool {
    imported.dsl().features().get(PROJECT_QUOTA).is_some()
}

/// The copies of blocks that a dataset below its parent gets.
fn inherited_copies(imported: &Imported, parent: Option<&Directory>) -> Result<u64, ControlError> {
    let Some(parent) = parent else {
        return Ok(1);
    };
    let parent = imported.dsl().dataset(parent.name()).map_err(of_dsl)?;
    parent.stored_number(Property::Copies).map_err(of_dsl)
}

/// The size of a new volume whose block size may be among its properties.
fn rounded_size(volume: &NewVolume, properties: &[Pair]) -> Result<u64, ControlError> {
    let named = properties.iter().find(|(name, _)| name == "volblocksize");
    let named = named.and_then(|(_, text)| parse_size(text).ok());
    let block_size = volume.block_size.or(named).unwrap_or(VOLUME_BLOCK_SIZE);
    volume_size(volume.size, block_size)
}
