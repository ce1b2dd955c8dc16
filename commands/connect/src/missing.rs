//! Pools that should be imported while no daemon runs.
//!
//! A running daemon knows them (`cenote_control::expected`). Without one, its record and the cache
//! file have the same information.

use std::path::Path;

use cenote_control::expected::{CachedPool, missing};
use cenote_control::model::MissingPool;
use cenote_control::record::{DaemonRecord, boot_id};
use cenote_control::regular;
use cenote_ondisk::NvList;
use cenote_ondisk::cache_file::{SIZE_MAX, pools_of};

use crate::death;
use crate::places::Places;

/// The pools that a daemon on this socket would have, while it does not run.
pub fn of_files(socket: &Path) -> Vec<MissingPool> {
    let places = Places::of_socket(socket);
    let cached = places.cache_file.as_deref();
    let cached = cached.and_then(|file| cached_pools(file, socket));
    // Unreadable records are reported by `resume` and by the check for a dead daemon.
    let record = death::record(socket).ok().flatten();
    let mut record = record.unwrap_or_else(|| DaemonRecord::of_this_process(socket, 0));
    if record.boot != boot_id() {
        record.stopped.clear();
    }
    let mut pools = missing(&record, &cached.unwrap_or_default(), |_| false);
    for pool in &mut pools {
        // No daemon runs that would retry the import.
        pool.may_come = false;
    }
    pools
}

/// The pools in a cache file that the daemon of a socket imported; `None` if it cannot be read.
fn cached_pools(file: &Path, socket: &Path) -> Option<Vec<CachedPool>> {
    let list = NvList::decode(&regular::read(file, SIZE_MAX).ok()?).ok()?;
    let pools = pools_of(&list, socket.as_os_str().as_encoded_bytes()).ok()?;
    let cached = pools.into_iter().map(|pool| CachedPool {
        name: String::from_utf8_lossy(pool.name).into_owned(),
        guid: pool.guid,
        devices: pool
            .devices
            .iter()
            .map(|place| place.to_string_lossy().into_owned())
            .collect(),
    });
    Some(cached.collect())
}
