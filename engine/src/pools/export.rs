//! Letting go of pools: exporting, destroying, and all of them at the end.

use crate::clouds::leave::{
    failure_of, give_up_with, hurry, keep_rest, outcome, stuck, upload_before,
};
use crate::clouds::status::devices_of;
use crate::command::{By, note};
use crate::context::Context;
use crate::devices::owner::pools_with_auxiliary;
use crate::errors::of_sync;
use crate::mounts::follow::mount_these;
use crate::mounts::table::Mounts;
use crate::mounts::unmount::unmount_pool;
use crate::registry::imported::Imported;
use cenote_base::Guid;
use cenote_base::rt::{self, MutexGuard};
use cenote_control::model::{ControlError, ExportHow, PoolRefusal, Response};
use cenote_control::protocol::{DisksAtEnd, Ending, Reply};
use std::time::Duration;

/// How long an export waits for another of the same pool, which may be giving up.
const LEAVE_WAIT: Duration = Duration::from_secs(1);
/// How often it looks.
const LEAVE_POLL: Duration = Duration::from_millis(20);

/// Waits a little for another export of the pool, which may still fail; then refuses.
fn begin_leaving(imported: &Imported) -> Result<MutexGuard<'_, ()>, ControlError> {
    let rounds = LEAVE_WAIT.as_millis() / LEAVE_POLL.as_millis();
    for _ in 0..rounds {
        match imported.leaving.try_lock() {
            Some(guard) => return Ok(guard),
            None => rt::sleep(LEAVE_POLL),
        }
    }
    Err(ControlError::PoolBusy {
        pool: imported.name().to_owned(),
    })
}

pub(crate) fn export(
    context: &Context,
    mounts: &Mounts,
    pool: &str,
    how: ExportHow,
    (by, reply): (Option<&By<'_>>, Option<&mut dyn Reply>),
) -> Result<Response, ControlError> {
    let imported = context.registry.pool(pool)?;
    let _leaving = begin_leaving(&imported)?;
    // Another request may have exported it just before.
    context.registry.pool(pool)?;
    let devices = devices_of(&context.clouds, &imported);
    let failure = failure_of(&devices);
    let is_suspended = imported.pool.suspended().is_some();
    if is_suspended && !how.force {
        let pool = pool.to_owned();
        return Err(ControlError::Suspended { pool });
    }
    if let Some(failure) = failure.clone().filter(|_| !how.force) {
        return Err(failure);
    }
    let shared = shared_spares(context, &imported);
    if !shared.is_empty() && !how.force {
        return Err(PoolRefusal::SharedSpareInUse.into());
    }
    let _giving_up = give_up_with(&imported, &devices);
    let is_suspended = is_suspended || failure.is_some();
    if is_suspended {
        // Threads that wait for devices would wait for ever.
        imported.pool.give_up();
    }
    let _disks = imported.free_all(how.force)?;
    let _freed = imported.hold_trees(how.force, |_| true)?;
    let (unmounted, kept_unmounted) =
        unmount_pool(&context.registry, mounts, &imported, how.force)?;
    if is_suspended {
        // It takes no more changes, those of its open file systems included.
        imported.heads.seal();
        keep_rest(&devices);
        imported.pool.abandon();
    } else {
        imported.close_all_heads(how.force)?;
        if let Some(by) = by {
            note(&imported, by);
        }
        match how.keep_rest {
            true => keep_rest(&devices),
            false => {
                if let Err(error) = upload_before(&imported, &devices, true, reply) {
                    drop(kept_unmounted);
                    mount_these(&context.registry, mounts, &unmounted);
                    return Err(error);
                }
            }
        }
        let exported = imported.pool.export();
        exported.map_err(|error| of_sync(pool, error))?;
    }
    context.registry.remove(pool);
    look_at_spares(context, &shared);
    context.divide_memory();
    if !how.keep_cached {
        context.registry.leave_cache_files(&imported);
    }
    context
        .events
        .post("sysevent.fs.zfs.pool_export", &imported.pool);
    let kept = is_suspended || how.keep_rest;
    Ok(outcome(if kept { &[] } else { &devices }))
}

/// The spares that a pool uses and that other imported pools list, too.
fn shared_spares(context: &Context, imported: &Imported) -> Vec<Guid> {
    let tree = imported.pool.vdev_tree();
    let used = tree.leaves().filter(|leaf| leaf.is_spare);
    let is_listed = |spare: &Guid| {
        let pools = pools_with_auxiliary(&context.registry, *spare);
        pools
            .iter()
            .any(|other| other.pool.guid() != imported.pool.guid())
    };
    used.map(|leaf| leaf.guid).filter(is_listed).collect()
}

/// Reads labels of shared spares again: their user is not imported any more.
fn look_at_spares(context: &Context, spares: &[Guid]) {
    for spare in spares {
        for other in pools_with_auxiliary(&context.registry, *spare) {
            other.pool.look_at_spare(*spare);
        }
    }
}

/// Destroys a pool.
pub(crate) fn destroy_pool(
    context: &Context,
    mounts: &Mounts,
    (pool, force): (&str, bool),
    by: &By<'_>,
) -> Result<Response, ControlError> {
    if !context.registry.pool(pool)?.pool.is_writable() {
        // As in OpenZFS: the destroy cannot be recorded in the pool, so it is exported.
        let how = ExportHow {
            force,
            ..ExportHow::default()
        };
        return export(context, mounts, pool, how, (None, None));
    }
    let imported = context.registry.writable_pool(pool)?;
    let shared = shared_spares(context, &imported);
    let _disks = imported.free_all(force)?;
    let _freed = imported.hold_trees(force, |_| true)?;
    let _unmounted = unmount_pool(&context.registry, mounts, &imported, force)?;
    imported.close_all_heads(force)?;
    // Afterwards there is no history to write to; `zpool import -D` brings it back.
    note(&imported, by);
    let destroyed = imported.pool.destroy();
    destroyed.map_err(|error| of_sync(pool, error))?;
    context.registry.remove(pool);
    look_at_spares(context, &shared);
    context.registry.approvals.forget_pool(imported.pool.guid());
    context.divide_memory();
    context.registry.leave_cache_files(&imported);
    context
        .events
        .post("sysevent.fs.zfs.pool_destroy", &imported.pool);
    Ok(Response::Done)
}

/// Disconnects all users of the pool's volumes, except disks that stay for the next daemon.
fn free_at_end(imported: &Imported, ending: Ending) -> Result<(), ControlError> {
    match ending.disks {
        DisksAtEnd::Go => imported.free_all(ending.force).map(drop),
        DisksAtEnd::OpenStay | DisksAtEnd::Stay => imported.free_of_clients(ending.force),
    }
}

/// Lets go of all pools before the daemon ends; with force although something is in use. Without
/// it all pools stay, mounted, if one has to.
pub(crate) fn shutdown(
    context: &Context,
    mounts: &Mounts,
    ending: Ending,
) -> Result<(), ControlError> {
    let force = ending.force;
    let pools = context.registry.all();
    let mut waiting = pools.iter().filter(|imported| imported.pool.is_waiting());
    if let Some(imported) = waiting.next().filter(|_| !force) {
        let pool = imported.name().to_owned();
        return Err(ControlError::Suspended { pool });
    }
    let refusal = stuck(&context.clouds, &pools);
    let is_stuck = refusal.is_some();
    if let Some(refusal) = refusal.filter(|_| !force) {
        return Err(refusal);
    }
    let hurry = hurry(&context.clouds, &pools, is_stuck);
    let mut failure = None;
    let mut unmounted = Vec::new();
    let mut kept_away = Vec::new();
    let mut kept_unmounted = Vec::new();
    for imported in &pools {
        if imported.pool.is_waiting() {
            imported.pool.give_up();
        }
        let freed = free_at_end(imported, ending);
        let freed = freed.and_then(|()| imported.hold_trees(force, |_| true));
        let unmounted_now = freed.and_then(|held| {
            kept_away.push(held);
            unmount_pool(&context.registry, mounts, imported, force)
        });
        match unmounted_now {
            Ok((datasets, kept)) => {
                unmounted.extend(datasets);
                kept_unmounted.push(kept);
            }
            // Leaving anyway: what cannot be unmounted is left to the system.
            Err(error) if force => failure = Some(error),
            Err(error) => {
                drop(kept_unmounted);
                mount_these(&context.registry, mounts, &unmounted);
                return Err(error);
            }
        }
    }
    context.publisher.leave_disks(ending.disks);
    for imported in &pools {
        context.registry.remove(imported.name());
    }
    drop(kept_away);
    drop(pools);
    drop(hurry);
    failure.map_or(Ok(()), Err)
}
