//! Letting go of pools: exporting, destroying, and all of them at the end.

use crate::command::{By, note};
use crate::context::Context;
use crate::errors::of_sync;
use crate::mounts::follow::mount_these;
use crate::mounts::table::Mounts;
use crate::mounts::unmount::unmount_pool;
use cenote_control::model::{ControlError, Response};

pub(crate) fn export(
    context: &Context,
    mounts: &Mounts,
    pool: &str,
    force: bool,
    by: Option<&By<'_>>,
) -> Result<Response, ControlError> {
    let imported = context.registry.pool(pool)?;
    let is_suspended = imported.pool.suspended().is_some();
    if is_suspended && !force {
        let pool = pool.to_owned();
        return Err(ControlError::Suspended { pool });
    }
    if is_suspended {
        // Whoever waits for devices would wait for ever.
        imported.pool.give_up();
    }
    unmount_pool(&context.registry, mounts, &imported, force)?;
    if is_suspended {
        // It takes no more changes, those of its open file systems included.
        let _ = imported.close_all_heads();
        imported.pool.abandon();
    } else {
        imported.close_all_heads()?;
        if let Some(by) = by {
            note(&imported, by);
        }
        let exported = imported.pool.export();
        exported.map_err(|error| of_sync(pool, error))?;
    }
    context.registry.remove(pool);
    context.divide_memory();
    context.registry.note_in_cache_file(&imported);
    context
        .events
        .post("sysevent.fs.zfs.pool_export", &imported.pool);
    Ok(Response::Done)
}

pub(crate) fn destroy_pool(
    context: &Context,
    mounts: &Mounts,
    pool: &str,
    force: bool,
) -> Result<Response, ControlError> {
    if !context.registry.pool(pool)?.pool.is_writable() {
        // As in OpenZFS: nothing can be written that says so, and it is let go.
        return export(context, mounts, pool, force, None);
    }
    let imported = context.registry.writable_pool(pool)?;
    unmount_pool(&context.registry, mounts, &imported, force)?;
    imported.close_all_heads()?;
    let destroyed = imported.pool.destroy();
    destroyed.map_err(|error| of_sync(pool, error))?;
    context.registry.remove(pool);
    context.divide_memory();
    context.registry.note_in_cache_file(&imported);
    context
        .events
        .post("sysevent.fs.zfs.pool_destroy", &imported.pool);
    Ok(Response::Done)
}

/// Lets go of all pools before the daemon ends; with `force` although something is in use.
/// Without it all pools stay, mounted, if one has to.
pub(crate) fn shutdown(
    context: &Context,
    mounts: &Mounts,
    force: bool,
) -> Result<(), ControlError> {
    let pools = context.registry.all();
    let mut waiting = pools.iter().filter(|imported| imported.pool.is_waiting());
    if let Some(imported) = waiting.next().filter(|_| !force) {
        let pool = imported.name().to_owned();
        return Err(ControlError::Suspended { pool });
    }
    let mut failure = None;
    let mut unmounted = Vec::new();
    for imported in &pools {
        if imported.pool.is_waiting() {
            imported.pool.give_up();
        }
        match unmount_pool(&context.registry, mounts, imported, force) {
            Ok(datasets) => unmounted.extend(datasets),
            // Leaving anyway: what cannot be unmounted is left to the system.
            Err(error) if force => failure = Some(error),
            Err(error) => {
                mount_these(&context.registry, mounts, &unmounted);
                return Err(error);
            }
        }
    }
    for imported in pools {
        context.registry.remove(imported.name());
    }
    failure.map_or(Ok(()), Err)
}
