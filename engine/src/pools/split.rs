//! `zpool split`: one side of each mirror becomes a pool of its own.

use super::set::{obey_properties, set_at_import};
use super::settings::check_at_import;
use crate::command::By;
use crate::context::Context;
use crate::devices::tree::{all_vdevs, answers_to, vdev_tree};
use crate::errors::{name_fault, of_sync};
use crate::mounts::make::mount_below;
use crate::mounts::options::check_options;
use crate::mounts::table::Mounts;
use crate::registry::imported::Imported;
use cenote_base::Guid;
use cenote_control::model::{ControlError, MountOptions, PoolRefusal, Response, SplitPool};
use cenote_pool::{Pool, SplitRequest};
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) fn split_pool(
    context: &Context,
    mounts: &Mounts,
    split: &SplitPool,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let imported = context.registry.writable_pool(&split.pool)?;
    check(context, split)?;
    let named = named_devices(&imported, split)?;
    let pool = &imported.pool;
    let is_scanned = |status: cenote_pool::ScanStatus| status.scan.is_running();
    let scan = pool.scan_status().ok().flatten();
    if scan.is_some_and(|status| is_scanned(status) && pool.vdevs().is_resilver_needed().is_some())
    {
        return Err(PoolRefusal::ResilverUnderWay.into());
    }
    if split.dry_run {
        let sides = pool.sides_to_split(&named).map_err(not_split)?;
        return Ok(Response::Split {
            sides: sides.into_iter().map(|side| side.0).collect(),
            failures: Vec::new(),
        });
    }
    let request = SplitRequest {
        name: split.new.clone(),
        sides: named,
    };
    let made = pool.split(&request, (&by.actor, by.command));
    context.registry.note_in_cache_file(&imported);
    let made = made.map_err(not_split)?;
    context
        .registry
        .approvals
        .extend_to(pool.guid(), made.guid());
    context.events.post("sysevent.fs.zfs.vdev_remove", pool);
    let mut sides: Vec<u64> = Vec::new();
    let tree = made.vdev_tree();
    let leaves = tree.leaves();
    sides.extend(
        leaves
            .filter(|leaf| leaf.is_leaf_device())
            .map(|leaf| leaf.guid.0),
    );
    let failures = take_in(context, mounts, made, split)?;
    Ok(Response::Split { sides, failures })
}

fn not_split(error: impl ToString) -> PoolRefusal {
    let reason = error.to_string();
    PoolRefusal::NotSplit { reason }
}

/// Refuses what the new pool cannot be, before anything is done.
fn check(context: &Context, split: &SplitPool) -> Result<(), ControlError> {
    let checked = cenote_dsl::check_pool_name(&split.new);
    checked.map_err(|error| ControlError::BadName {
        name: split.new.clone(),
        fault: name_fault(error),
    })?;
    if context.registry.pool(&split.new).is_ok() {
        return Err(PoolRefusal::NameTaken.into());
    }
    check_options(&split.mount_options)?;
    let mut properties = split.properties.iter();
    properties.try_for_each(|(name, value)| check_at_import(name, value))?;
    match split
        .altroot
        .as_deref()
        .filter(|root| !root.starts_with('/'))
    {
        None => Ok(()),
        Some(root) => Err(ControlError::BadValue {
            name: "altroot".to_owned(),
            reason: format!("bad alternate root '{root}'"),
        }),
    }
}

/// The guids of the devices that the command names.
fn named_devices(imported: &Imported, split: &SplitPool) -> Result<Vec<Guid>, ControlError> {
    let tree = vdev_tree(&imported.pool);
    let vdevs = all_vdevs(&tree);
    let guid_of = |name: &String| {
        let found = vdevs
            .iter()
            .find(|vdev| answers_to(vdev, name) && vdev.children.is_empty());
        let found = found.map(|vdev| Guid(vdev.guid));
        found.ok_or_else(|| ControlError::NoSuchDevice {
            device: name.clone(),
            pool: split.pool.clone(),
        })
    };
    split.devices.iter().map(guid_of).collect()
}

/// Has the new pool among those that are imported if a root was given for its mounts, and exports
/// it otherwise. Returns what could not be mounted.
fn take_in(
    context: &Context,
    mounts: &Mounts,
    made: Pool,
    split: &SplitPool,
) -> Result<Vec<(String, ControlError)>, ControlError> {
    let altroot = split.altroot.as_ref().map(PathBuf::from);
    let mut imported = Imported::new(made, altroot, context.random());
    imported.mount_options.clone_from(&split.mount_options);
    imported.set_cache_file(Some("none".to_owned()));
    if split.altroot.is_none() {
        let imported = Arc::new(imported);
        set_at_import(context, &imported, &split.properties)?;
        let exported = imported.pool.export();
        exported.map_err(|error| of_sync(&split.new, error))?;
        return Ok(Vec::new());
    }
    let imported = context.registry.insert(imported)?;
    context.divide_memory();
    set_at_import(context, &imported, &split.properties)?;
    obey_properties(context, &imported);
    context
        .events
        .post("sysevent.fs.zfs.pool_import", &imported.pool);
    if split.no_mount {
        return Ok(Vec::new());
    }
    let (failures, _) = mount_below(mounts, &imported, None, &MountOptions::default());
    Ok(failures)
}
