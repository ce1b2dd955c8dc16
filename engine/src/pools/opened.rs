//! How a pool was opened, for commands that read its devices themselves.

use crate::errors::{of_dsl, of_sync};
use cenote_cloud::is_url;
use cenote_control::model::{ControlError, LoadedKey, OpenedPool, Response, Secret};

use crate::registry::table::Registry;
use std::path::Path;

pub(crate) fn pool_opened(registry: &Registry, pool: &str) -> Result<Response, ControlError> {
    let imported = registry.pool_or_guid(pool)?;
    let pool = &imported.pool;
    // The client reads the disks itself, so sync first. A suspended pool can still be read in its
    // last state.
    if pool.is_writable() && pool.suspended().is_none() {
        let synced = pool.sync();
        synced.map_err(|error| of_sync(imported.name(), error))?;
    }
    let tree = pool.vdev_tree();
    let leaves = tree.leaves();
    let paths = leaves.filter_map(|leaf| Some(leaf.path.as_ref()?.to_string_lossy().into_owned()));
    let mut keys = Vec::new();
    for (root, key) in imported.dsl().loaded_keys().map_err(of_dsl)? {
        keys.push(LoadedKey {
            root: root.name().as_str().to_owned(),
            wrapping_key: Secret::new(key.expose().to_vec()),
        });
    }
    let opened = OpenedPool {
        name: imported.name().to_owned(),
        guid: pool.guid().0,
        devices: paths
            .filter(|path| path.starts_with('/') || is_url(Path::new(path)))
            .collect(),
        offset: imported.offset,
        txg: pool.txg().0,
        // In a writable pool the checkpoint is gone: the rewind was permanent.
        checkpoint: pool.options().rewind_to_checkpoint && !pool.is_writable(),
        missing_log: pool.options().missing_logs,
        replay: imported.replays_in_memory(),
        keys,
    };
    let opened = Box::new(opened);
    Ok(Response::Opened { opened })
}
