//! `zpool checkpoint`.

use crate::command::By;
use crate::errors::of_sync;
use crate::registry::table::Registry;
use cenote_control::model::{ControlError, Response};

/// Keeps the pool's state, or gives up what is kept.
pub(crate) fn checkpoint_pool(
    registry: &Registry,
    pool: &str,
    discard: bool,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let imported = registry.writable_pool(pool)?;
    let done = match discard {
        true => imported.pool.discard_checkpoint(&by.actor, by.command),
        false => imported.pool.take_checkpoint(&by.actor, by.command),
    };
    done.map_err(|error| of_sync(pool, error))?;
    Ok(Response::Done)
}
