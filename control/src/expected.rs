//! Which pools should be imported, and are not: what a daemon's record and the cache file say.
//!
//! A daemon reports them. While no daemon runs, commands do.

use crate::model::MissingPool;
use crate::record::{DaemonRecord, RecordedPool};

/// A pool in a cache file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedPool {
    /// Its name.
    pub name: String,
    /// Its guid.
    pub guid: u64,
    /// Where its devices were.
    pub devices: Vec<String>,
}

/// The pools that `record` and the cache file say should be imported, and of which `is_imported`
/// does not hold.
pub fn missing(
    record: &DaemonRecord,
    cached: &[CachedPool],
    is_imported: impl Fn(u64) -> bool,
) -> Vec<MissingPool> {
    let lost = record.lost.iter().flat_map(|lost| &lost.pools);
    let lost = lost.map(|pool: &RecordedPool| (&pool.name, pool.guid, &pool.devices, true));
    let cached = cached.iter();
    let cached = cached.map(|pool| (&pool.name, pool.guid, &pool.devices, false));
    let mut missing: Vec<MissingPool> = Vec::new();
    for (name, guid, devices, is_lost) in lost.chain(cached) {
        if is_imported(guid) || missing.iter().any(|other| other.guid == guid) {
            continue;
        }
        let failed = record.failed.iter().find(|failed| failed.guid == guid);
        let mut stopped = record.stopped.iter();
        if failed.is_none() && stopped.any(|pool| pool.guid == guid) {
            continue;
        }
        missing.push(MissingPool {
            name: name.clone(),
            guid,
            devices: devices.clone(),
            tried: failed.map(|failed| failed.tried),
            reason: failed.map_or_else(String::new, |failed| failed.reason.clone()),
            may_come: failed.is_some_and(|failed| failed.may_come),
            is_lost,
        });
    }
    missing
}
