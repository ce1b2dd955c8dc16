//! `zpool remove`: log, spare and cache devices leave a pool.

use super::tree::{all_vdevs, answers_to, vdev_tree};
use crate::command::By;
use crate::context::Context;
use crate::errors::unchanged;
use crate::registry::imported::Imported;
use cenote_base::Guid;
use cenote_control::model::{ControlError, Response, VdevTree};
use cenote_pool::Auxiliary;

/// A device or vdev to remove.
enum Target {
    Spare(Guid),
    Cache(Guid),
    /// A vdev of the tree, which has to be a log.
    Vdev(Guid),
}

/// Removes devices, or only says whether they can be removed. Answer: `Failures`, by device.
pub(crate) fn remove_devices(
    context: &Context,
    (pool, devices): (&str, &[String]),
    dry_run: bool,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let imported = context.registry.writable_pool(pool)?;
    let mut failures = Vec::new();
    let mut done = 0;
    for name in devices {
        // Each removal changes the tree in which the next name is looked up.
        let target = target(&imported, &vdev_tree(&imported.pool), name);
        let removed = target.and_then(|target| match dry_run {
            true => check(&imported, &target),
            false => remove(context, &imported, &target, by),
        });
        match removed {
            Ok(()) => done += 1,
            Err(error) => failures.push((name.clone(), error)),
        }
    }
    if done > 0 && !dry_run {
        context.registry.note_in_cache_file(&imported);
    }
    Ok(Response::Failures { failures, done })
}

/// The device that a user means. Lists come before the tree: a spare in use is in both, and is
/// refused as a spare.
fn target(imported: &Imported, tree: &VdevTree, name: &str) -> Result<Target, ControlError> {
    let spares = tree.spares.iter();
    if let Some(spare) = spares.into_iter().find(|spare| answers_to(spare, name)) {
        return Ok(Target::Spare(Guid(spare.guid)));
    }
    if let Some(cache) = tree.cache.iter().find(|cache| answers_to(cache, name)) {
        return Ok(Target::Cache(Guid(cache.guid)));
    }
    let vdevs = all_vdevs(tree);
    let vdev = vdevs.into_iter().find(|vdev| answers_to(vdev, name));
    let vdev = vdev.filter(|vdev| vdev.guid != 0);
    match vdev {
        Some(vdev) => Ok(Target::Vdev(Guid(vdev.guid))),
        None => Err(ControlError::NoSuchDevice {
            device: name.to_owned(),
            pool: imported.name().to_owned(),
        }),
    }
}

fn check(imported: &Imported, target: &Target) -> Result<(), ControlError> {
    let auxiliary = |list, device| imported.pool.check_remove_auxiliary(list, device).map(drop);
    match target {
        Target::Spare(device) => auxiliary(Auxiliary::Spare, *device),
        Target::Cache(device) => auxiliary(Auxiliary::Cache, *device),
        Target::Vdev(top) => imported.pool.check_remove_log(*top),
    }
    .map_err(unchanged)
}

fn remove(
    context: &Context,
    imported: &Imported,
    target: &Target,
    by: &By<'_>,
) -> Result<(), ControlError> {
    let pool = &imported.pool;
    let who = (&by.actor, by.command);
    let auxiliary = |list, device| pool.remove_auxiliary((list, device), who);
    let (removed, class) = match target {
        Target::Spare(device) => (auxiliary(Auxiliary::Spare, *device), "vdev_remove_aux"),
        Target::Cache(device) => (auxiliary(Auxiliary::Cache, *device), "vdev_remove_aux"),
        Target::Vdev(top) => (pool.remove_log(*top, who), "vdev_remove_dev"),
    };
    removed.map_err(unchanged)?;
    context
        .events
        .post(&format!("sysevent.fs.zfs.{class}"), pool);
    Ok(())
}
