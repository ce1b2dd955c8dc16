//! `zpool offline`, `attach`, `replace`, `detach` and `reopen`; `remove` is beside this.

use super::add::ashift;
use super::emptied::let_go;
use super::open::{Destination, open_devices};
use super::owner::pools_with_auxiliary;
use super::remove::remove_devices;
use super::tree::{all_vdevs, answers_to, is_in_tree, shared_tree, vdev_tree};
use crate::clouds::rules::check_new;
use crate::clouds::status::check_others;
use crate::command::{By, note};
use crate::context::Context;
use crate::errors::{outsider, unchanged};
use crate::registry::imported::Imported;
use cenote_base::Guid;
use cenote_cloud::is_url;
use cenote_control::model::{
    AllowedVdevs, AttachedDevice, ControlError, DeviceChange, DeviceRefusal, NewVdev, NewVdevKind,
    NewVdevRole, Response, SpareUse, Vdev, VdevKind, VdevState, VdevTree,
};
use cenote_dsl::directory_keys as keys;
use cenote_pool::{Actor, Attachment, Auxiliary, Companion, Offline, Pool, Reach};
use std::path::Path;

/// Carries out a change of devices.
pub(crate) fn change_devices(
    context: &Context,
    change: DeviceChange,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    match change {
        DeviceChange::Offline {
            pool,
            devices,
            temporary,
            fault,
        } => {
            let how = Offline {
                is_temporary: temporary,
                is_fault: fault,
            };
            offline(context, &pool, &devices, how, by)
        }
        DeviceChange::Attach(attached) => attach(context, &attached, by),
        DeviceChange::Detach { pool, device } => detach(context, &pool, &device, by),
        DeviceChange::Remove {
            pool,
            devices,
            dry_run,
        } => remove_devices(context, (&pool, &devices), dry_run, by),
        DeviceChange::Reopen { pool } => reopen(context, &pool, by),
    }
}

/// The device that a user means.
fn device_of(imported: &Imported, tree: &VdevTree, name: &str) -> Result<Vdev, ControlError> {
    let found = all_vdevs(tree)
        .into_iter()
        .find(|vdev| answers_to(vdev, name) && vdev.children.is_empty());
    if let Some(found) = found {
        return Ok(found.clone());
    }
    let is_in = |list: &[Vdev]| list.iter().any(|vdev| answers_to(vdev, name));
    Err(match (is_in(&tree.spares), is_in(&tree.cache)) {
        (true, _) => DeviceRefusal::Spare.into(),
        (_, true) => DeviceRefusal::Cache.into(),
        _ => ControlError::NoSuchDevice {
            device: name.to_owned(),
            pool: imported.name().to_owned(),
        },
    })
}

/// A side of a mirror that a new one can be attached to: the first that is a single device.
fn side_of(group: &Vdev) -> Option<Vdev> {
    let is_mirror = group.kind == VdevKind::Mirror;
    let mut sides = group.children.iter();
    let first = sides.find(|side| side.children.is_empty());
    first.filter(|_| is_mirror).cloned()
}

/// What `attach`, `replace` and `detach` say where there is no such device.
fn missing(error: ControlError) -> ControlError {
    match error {
        ControlError::NoSuchDevice { .. } => DeviceRefusal::NotInPool.into(),
        error => error,
    }
}

fn offline(
    context: &Context,
    pool: &str,
    devices: &[String],
    how: Offline,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let imported = context.registry.writable_pool(pool)?;
    let tree = vdev_tree(&imported.pool);
    let mut failures = Vec::new();
    let mut done = 0;
    for name in devices {
        match offline_one(&imported, &tree, name, how, &by.actor) {
            Ok(()) => done += 1,
            Err(error) => failures.push((name.clone(), error)),
        }
    }
    if done > 0 {
        note(&imported, by);
    }
    Ok(Response::Failures { failures, done })
}

fn offline_one(
    imported: &Imported,
    tree: &VdevTree,
    name: &str,
    how: Offline,
    actor: &Actor,
) -> Result<(), ControlError> {
    let pool = &imported.pool;
    let cache = tree.cache.iter().find(|cache| answers_to(cache, name));
    if let Some(cache) = cache.filter(|_| !how.is_fault) {
        let done = pool.rest_cache(Guid(cache.guid), Some(how));
        return done.map_err(unchanged);
    }
    let device = device_of(imported, tree, name)?;
    let done = pool.offline(Guid(device.guid), how, (actor, ""));
    done.map_err(unchanged)
}

/// The `ashift` for a new device, if the command has one.
fn asked_ashift(attached: &AttachedDevice) -> Result<Option<u32>, ControlError> {
    let mut shift = None;
    for (name, value) in &attached.properties {
        if name != "ashift" {
            let name = name.clone();
            let reason = format!("property '{name}' is not a valid pool or vdev property");
            return Err(ControlError::BadValue { name, reason });
        }
        shift = Some(ashift(name, value)?).filter(|shift| *shift > 0);
    }
    Ok(shift)
}

fn attach(
    context: &Context,
    attached: &AttachedDevice,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let imported = context.registry.writable_pool(&attached.pool)?;
    let shift = asked_ashift(attached)?;
    let tree = shared_tree(&context.registry.all(), &imported.pool);
    let found = all_vdevs(&tree)
        .into_iter()
        .find(|vdev| answers_to(vdev, &attached.device));
    let old = match found.filter(|vdev| !attached.replaces && !vdev.children.is_empty()) {
        Some(group) => side_of(group).ok_or(DeviceRefusal::NotWidened)?,
        None => device_of(&imported, &tree, &attached.device).map_err(missing)?,
    };
    let place = attached.new.clone().or_else(|| old.path.clone());
    let place = place.ok_or(DeviceRefusal::NotInPool)?;
    let pool = &imported.pool;
    if let Some(spare) = tree.spares.iter().find(|spare| answers_to(spare, &place)) {
        if !attached.replaces || spare.spare != Some(SpareUse::Available) {
            return Err(DeviceRefusal::Busy { device: place }.into());
        }
        let by = (&by.actor, by.command);
        let (old, spare) = (Guid(old.guid), Guid(spare.guid));
        let done = pool.attach_spare(old, spare, attached.sequential, by);
        done.map_err(unchanged)?;
        context.events.post("sysevent.fs.zfs.vdev_spare", pool);
    } else {
        let place = match place.starts_with('/') || is_url(Path::new(&place)) {
            true => place,
            false => format!("/dev/{place}"),
        };
        if attached.replaces {
            let places = (old.path.as_deref(), place.as_str());
            let_go(context, &imported, Guid(old.guid), places, &by.actor)?;
        }
        let new = NewVdev {
            role: NewVdevRole::Normal,
            kind: NewVdevKind::Disk,
            devices: vec![place],
        };
        let new = [new];
        check_new(&new, true)?;
        check_others(&context.clouds, &imported)?;
        let how = (AllowedVdevs::all(attached.force), false);
        let place = Destination::Attached(imported.name());
        let opened = open_devices(context, &new, None, how, place)?;
        let held = opened.held;
        let leaves = opened.vdevs.into_iter().flat_map(|vdev| vdev.leaves);
        let leaf = leaves.last().ok_or(DeviceRefusal::NoDevice)?;
        let request = Attachment {
            old: Guid(old.guid),
            new: leaf,
            companion: companion_of(attached),
            sequential: attached.sequential,
            ashift: shift,
        };
        let done = pool.attach(&request, (&by.actor, by.command));
        done.map_err(unchanged)?;
        held.keep();
    }
    context.registry.note_in_cache_file(&imported);
    context.events.post("sysevent.fs.zfs.vdev_attach", pool);
    Ok(Response::Done)
}

fn companion_of(attached: &AttachedDevice) -> Companion {
    match attached.replaces {
        true => Companion::Replacement,
        false => Companion::Side,
    }
}

fn detach(
    context: &Context,
    pool: &str,
    device: &str,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let imported = context.registry.writable_pool(pool)?;
    let tree = vdev_tree(&imported.pool);
    let found = device_of(&imported, &tree, device);
    let found = found.map_err(missing)?;
    let pool = &imported.pool;
    let done = pool.detach(Guid(found.guid), (&by.actor, by.command));
    done.map_err(unchanged)?;
    for spare in &tree.spares {
        keep_for_good(context, pool, Guid(spare.guid), &by.actor);
    }
    context.registry.note_in_cache_file(&imported);
    let class = "sysevent.fs.zfs.vdev_remove";
    context.events.post(class, &imported.pool);
    Ok(Response::Done)
}

/// Removes a spare that is now a permanent device of `pool` from the lists of the other pools.
fn keep_for_good(context: &Context, pool: &Pool, spare: Guid, actor: &Actor) {
    let lists = |pool: &Pool| {
        let spares = pool.dsl().auxiliary_vdevs(keys::SPARES).unwrap_or_default();
        spares.iter().any(|listed| listed.guid == spare)
    };
    if !is_in_tree(pool, spare) || lists(pool) {
        return;
    }
    for other in pools_with_auxiliary(&context.registry, spare) {
        let removed = other
            .pool
            .remove_auxiliary((Auxiliary::Spare, spare), (actor, ""));
        if let Err(error) = removed {
            log::warn!("pool '{}': spare {spare}: {error}", other.name());
        }
    }
}

/// Looks for devices that are not there, and uses what is found.
fn reopen(context: &Context, pool: &str, by: &By<'_>) -> Result<Response, ControlError> {
    let imported = context.registry.writable_pool(pool)?;
    let pool = &imported.pool;
    let silent = pool.vdevs().silent_leaves();
    if !silent.is_empty() {
        pool.clear(&silent).map_err(unchanged)?;
    }
    pool.find_auxiliary(Reach::Beside);
    let tree = vdev_tree(pool);
    let shape = pool.vdevs();
    let lost = all_vdevs(&tree).into_iter().filter(|vdev| {
        let is_lost = matches!(vdev.state, VdevState::CantOpen | VdevState::Removed);
        vdev.kind.is_leaf() && is_lost && !shape.is_open(Guid(vdev.guid))
    });
    let lost: Vec<Guid> = lost.map(|vdev| Guid(vdev.guid)).collect();
    let looked = pool.look_for(lost).map_err(unchanged)?;
    for (guid, device) in looked.devices {
        let done = pool.online(guid, Some(device), (&by.actor, ""));
        done.map_err(unchanged)?;
    }
    note(&imported, by);
    let mut outsiders = looked.outsiders.iter();
    match outsiders.find(|outsider| !outsider.is_copy()) {
        Some(found) => Err(outsider(found)),
        None => Ok(Response::Done),
    }
}
