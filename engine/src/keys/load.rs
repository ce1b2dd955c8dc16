//! Keys loaded and unloaded.

use crate::errors::{of_dsl, parse_name};
use crate::mounts::table::Mounts;
use crate::registry::table::Registry;
use cenote_base::Env;
use cenote_control::model::{ControlError, Response, Secret};
use cenote_dsl::DslError;
use std::time::Duration;

/// How long the files of an ended mount may take to be closed.
const LETTING_GO: Duration = Duration::from_secs(2);
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

pub(crate) fn load_key(
    registry: &Registry,
    dataset: &str,
    key: &Secret,
    dry_run: bool,
) -> Result<Response, ControlError> {
    let (imported, found) = registry.dataset(&parse_name(dataset)?)?;
    let dsl = found.dsl();
    dsl.load_key(found.directory(), key.expose(), dry_run)
        .map_err(of_dsl)?;
    // The key stays loaded even if replaying the volumes that waited for it fails.
    match imported.replay_volumes().into_iter().next() {
        Some((_, error)) if !dry_run => Err(error),
        _ => Ok(Response::Done),
    }
}

pub(crate) fn unload_key(
    registry: &Registry,
    mounts: &Mounts,
    env: &dyn Env,
    dataset: &str,
) -> Result<Response, ControlError> {
    let (imported, found) = registry.dataset(&parse_name(dataset)?)?;
    let root = found.directory().id();
    let is_locked = |id| {
        // A dataset that cannot be read may need the key.
        let Ok(dataset) = imported.dsl().dataset_of(id) else {
            return true;
        };
        let key = dataset.directory().crypto_key();
        key.map_or(true, |key| key.is_some_and(|key| key.root() == root))
    };
    let _freed = imported.hold_trees(false, is_locked)?;
    let _disks = imported.free_unused_disks(is_locked);
    let until = env.monotonic() + LETTING_GO;
    loop {
        mounts.forget_ended();
        imported.close_idle_heads(found.directory().id())?;
        match found.dsl().unload_key(found.directory()) {
            // Threads that served a mount which is gone may still be letting go of its files.
            Err(DslError::KeyBusy { .. })
                if !mounts.is_used(dataset) && env.monotonic() < until =>
            {
                env.sleep(LOOK_INTERVAL);
            }
            result => {
                result.map_err(of_dsl)?;
                return Ok(Response::Done);
            }
        }
    }
}

/// Unloads the key of a dataset if it is an encryption root whose key is loaded.
pub(crate) fn unload_if_root(
    registry: &Registry,
    mounts: &Mounts,
    env: &dyn Env,
    dataset: &str,
) -> Result<(), ControlError> {
    let name = parse_name(dataset)?;
    let (_, found) = registry.dataset(&name)?;
    let dsl = found.dsl();
    let root = dsl.encryption_root(found.directory()).map_err(of_dsl)?;
    let is_root = root.is_some_and(|root| root.id() == found.directory().id());
    if is_root && dsl.keys().is_loaded(found.directory().id()) {
        unload_key(registry, mounts, env, dataset)?;
    }
    Ok(())
}
