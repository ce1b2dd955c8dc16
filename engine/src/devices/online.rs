//! `zpool online`: devices used again, and all that they have become.

use super::tree::{all_vdevs, answers_to, vdev_tree};
use crate::command::{By, note};
use crate::context::Context;
use crate::errors::{of_sync, outsider, unchanged};
use crate::registry::imported::Imported;
use cenote_base::{Guid, VdevId};
use cenote_control::model::{
    ControlError, OnlineDevices, Response, Vdev, VdevKind, VdevState, VdevTree,
};
use cenote_pool::{Actor, Pool, Reach, Returned};
use std::sync::Arc;

/// Whether `vdev` or something below it is `guid`.
fn contains(vdev: &Vdev, guid: u64) -> bool {
    vdev.guid == guid || vdev.children.iter().any(|child| contains(child, guid))
}

/// Uses devices again, and with `expand` their full present size. The answer has the state of each.
pub(crate) fn online(
    context: &Context,
    online: &OnlineDevices,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let imported = context.registry.writable_pool(&online.pool)?;
    let (mut states, mut failures) = (Vec::new(), Vec::new());
    for device in &online.devices {
        match online_device(context, &imported, device, online.expand) {
            Ok(state) => states.push((device.clone(), state)),
            Err(error) => failures.push((device.clone(), error)),
        }
    }
    if failures.is_empty() {
        note(&imported, by);
    }
    Ok(Response::Online { states, failures })
}

/// The device of a leaf that is not open, if it is there.
fn found_again(pool: &Pool, guid: Guid) -> Result<Option<Returned>, ControlError> {
    let mut looked = pool.look_for(vec![guid]).map_err(unchanged)?;
    let found = looked.devices.remove(&guid);
    match looked.outsiders.first().filter(|_| found.is_none()) {
        Some(found) => Err(outsider(found)),
        None => Ok(found),
    }
}

/// Looks for a spare or cache device that does not serve in the tree, and ends the rest of a cache
/// device; `None` if the pool has none of that name.
fn auxiliary_online(pool: &Pool, device: &str) -> Result<Option<VdevState>, ControlError> {
    let find = |tree: VdevTree| {
        let mut all = tree.spares.into_iter().chain(tree.cache);
        all.find(|vdev| answers_to(vdev, device))
    };
    let Some(found) = find(vdev_tree(pool)) else {
        return Ok(None);
    };
    if found.state == VdevState::Offline {
        let done = pool.rest_cache(Guid(found.guid), None);
        done.map_err(unchanged)?;
    }
    pool.find_auxiliary(Reach::Beside);
    // It may have been found by another name.
    let state = find(vdev_tree(pool)).map_or(VdevState::Online, |vdev| vdev.state);
    Ok(Some(state))
}

fn online_device(
    context: &Context,
    imported: &Arc<Imported>,
    device: &str,
    expand: bool,
) -> Result<VdevState, ControlError> {
    let tree = vdev_tree(&imported.pool);
    let found = all_vdevs(&tree)
        .into_iter()
        .find(|vdev| answers_to(vdev, device) && vdev.children.is_empty());
    if found.is_none()
        && let Some(state) = auxiliary_online(&imported.pool, device)?
    {
        return Ok(state);
    }
    let vdev = found.ok_or_else(|| ControlError::NoSuchDevice {
        device: device.to_owned(),
        pool: imported.name().to_owned(),
    })?;
    let guid = Guid(vdev.guid);
    let pool = &imported.pool;
    let is_silent = || pool.vdevs().silent_leaves().contains(&guid);
    if is_silent() {
        let cleared = pool.clear(&[guid]);
        // What it says of other devices is not this command's affair.
        match cleared {
            Err(error) if is_silent() => return Err(unchanged(error)),
            _ if is_silent() => return Ok(VdevState::CantOpen),
            _ => {}
        }
    }
    // What is faulted may be offline as well, and stays so when its faults are cleared.
    let out = [VdevState::Offline, VdevState::Removed, VdevState::CantOpen];
    if out.contains(&vdev.state) || pool.is_out_of_use(guid) {
        // What is out of use is closed. It is opened by its name, and its labels are judged.
        let is_open = pool.vdevs().is_open(guid) || vdev.kind == VdevKind::DraidSpare;
        let found = match is_open {
            true => None,
            false => found_again(pool, guid)?,
        };
        let is_there = is_open || found.is_some();
        if is_there || pool.is_out_of_use(guid) {
            let by = (&Actor::default(), "");
            pool.online(guid, found, by).map_err(unchanged)?;
        }
    }
    let top = tree.root.children.iter().find(|top| contains(top, guid.0));
    if let Some(top) = top.filter(|_| expand) {
        let expanded = pool.expand(Some(&[VdevId(top.id)]), &Actor::default(), "");
        expanded.map_err(|error| of_sync(imported.name(), error))?;
    }
    context.events.post("sysevent.fs.zfs.vdev_online", pool);
    let tree = vdev_tree(pool);
    let now = all_vdevs(&tree)
        .into_iter()
        .find(|vdev| vdev.guid == guid.0);
    Ok(now.map_or(VdevState::CantOpen, |vdev| vdev.state))
}
