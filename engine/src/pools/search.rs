//! The search for devices of pools.

use super::cached::cached_places;
use super::trial::trial;
use crate::clouds::opener::AllOpener;
use crate::clouds::table::Clouds;
use crate::context::Context;
use cenote_base::{Env, Guid};
use cenote_cloud::is_url;
use cenote_cloud::location::{is_location, place};
use cenote_control::model::{ControlError, Search, StoreRefusal};
use cenote_device::DeviceError;
use cenote_ondisk::pool_config::PoolState;
use cenote_pool::{ImportError, PoolCandidate, assemble};
use cenote_vdev::{Scan, scan};
use std::collections::{BTreeSet, HashMap};
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where devices are looked for when no place is named.
const PLACES: [&str; 2] = ["/dev/disk/by-id", "/dev"];

/// How often a search by a cache file looks for devices that the file does not list.
const UNLISTED_ROUNDS_MAX: usize = 2;

/// The most devices that a line about unsearched places names.
const NAMED_MAX: usize = 8;

/// What a search came to.
pub(crate) struct Found {
    /// The pools.
    pub candidates: Vec<PoolCandidate>,
    /// Pools by their guid that have a device in common with another one: that one's name. A
    /// device was a smaller one's copy, or has got partitions.
    pub sharers: HashMap<Guid, String>,
    /// Places that could not be searched, and why, a line each.
    pub unreadable: Vec<String>,
    /// Why one of those is a store and cannot be opened.
    pub store_failure: Option<String>,
    /// What opened the devices.
    pub opener: AllOpener,
}

/// Looks for devices of pools.
pub(crate) fn find(context: &Context, search: &Search) -> Result<Found, ControlError> {
    let (clouds, env) = (&context.clouds, &context.env);
    let mut paths: Vec<PathBuf> = match search.paths.is_empty() {
        _ if search.cache_file.is_some() => {
            let file = search.cache_file.as_deref().unwrap_or_default();
            cached_places(clouds, search, Path::new(file))?
        }
        false => search.paths.iter().map(PathBuf::from).collect(),
        true => {
            let places = PLACES.iter().map(PathBuf::from);
            places.filter(|place| place.exists()).collect()
        }
    };
    let mut found = look(clouds, search, &paths);
    if search.cache_file.is_some() {
        // Top-level vdevs that are new first: the pool can be read only with all of them.
        for _ in 0..UNLISTED_ROUNDS_MAX {
            let more = unlisted(&found.candidates, &paths, env);
            if more.is_empty() {
                break;
            }
            paths.extend(more);
            // Devices are closed before they are opened again.
            drop(found);
            found = look(clouds, search, &paths);
        }
    }
    Ok(found)
}

/// Devices that pools have by their own configurations, and that are not in the cache file: it is
/// older than they are.
fn unlisted(
    candidates: &[PoolCandidate],
    known: &[PathBuf],
    env: &Arc<dyn Env>,
) -> BTreeSet<PathBuf> {
    let mut places = BTreeSet::new();
    for candidate in candidates {
        match cenote_pool::import(candidate, &trial(), Arc::clone(env)) {
            Ok(pool) => {
                let tree = pool.vdev_tree();
                places.extend(tree.leaves().filter_map(|leaf| leaf.path.clone()));
            }
            Err(ImportError::MissingDevices { missing }) => {
                places.extend(missing.into_iter().filter_map(|missing| missing.last_path));
            }
            Err(_) => {}
        }
    }
    // A label may name any path, and some files do something when they are opened.
    let is_device = |place: &PathBuf| {
        let kind = std::fs::metadata(place).map(|found| found.file_type());
        kind.is_ok_and(|kind| kind.is_file() || kind.is_block_device())
    };
    places.retain(|place| !known.contains(place) && is_device(place));
    places
}

fn look(clouds: &Arc<Clouds>, search: &Search, paths: &[PathBuf]) -> Found {
    let (opener, places) = AllOpener::new(clouds, paths, search.offset);
    let found: Scan = scan(&places, &opener);
    let unreadable = unreadable(search, &found.failures);
    let store_failure = found.failures.iter().find_map(of_store);
    let mut candidates = assemble(found);
    let sharers = sharers(&candidates);
    let destroyed = |candidate: &PoolCandidate| candidate.config.state == PoolState::Destroyed;
    candidates.retain(|candidate| destroyed(candidate) == search.destroyed);
    Found {
        candidates,
        sharers,
        unreadable,
        store_failure,
        opener,
    }
}

/// Pools whose devices, or parts of them, are also another pool's.
fn sharers(candidates: &[PoolCandidate]) -> HashMap<Guid, String> {
    let mut pools_at: HashMap<PathBuf, Vec<usize>> = HashMap::new();
    for (index, candidate) in candidates.iter().enumerate() {
        for path in candidate.paths().into_values() {
            let pools = pools_at.entry(path).or_default();
            if !pools.contains(&index) {
                pools.push(index);
            }
        }
    }
    let mut sharers = HashMap::new();
    for pools in pools_at.values().filter(|pools| pools.len() > 1) {
        for index in pools {
            let other = pools.iter().find(|other| *other != index);
            let name = other.map(|other| candidates[*other].name().to_owned());
            sharers.extend(name.map(|name| (candidates[*index].guid, name)));
        }
    }
    sharers
}

/// Leaves out pools whose devices are another pool's by now: they share a device with one, and
/// cannot be opened.
pub(crate) fn without_overwritten(
    candidates: Vec<PoolCandidate>,
    sharers: &HashMap<Guid, String>,
    env: &Arc<dyn Env>,
) -> Vec<PoolCandidate> {
    let is_whole = |candidate: &PoolCandidate| {
        !sharers.contains_key(&candidate.guid)
            || cenote_pool::import(candidate, &trial(), Arc::clone(env)).is_ok()
    };
    candidates.into_iter().filter(is_whole).collect()
}

/// Why a store or an export cannot be opened, if that is what failed.
fn of_store(failure: &DeviceError) -> Option<String> {
    match failure {
        DeviceError::Open { path, source } if is_location(path) => Some(source.to_string()),
        DeviceError::Open { path, .. } if is_url(path) => Some(failure.to_string()),
        DeviceError::InUse { path } if is_location(path) => Some(failure.to_string()),
        _ => None,
    }
}

/// Looks at the devices of a pool again, and takes those over that are in stores: their local logs
/// may hold more than their stores.
pub(crate) fn take(
    candidate: PoolCandidate,
    opener: &AllOpener,
) -> Result<PoolCandidate, ControlError> {
    let mut paths: Vec<PathBuf> = candidate.paths().into_values().collect();
    if !paths.iter().any(|path| is_location(path)) {
        return Ok(candidate);
    }
    paths.sort();
    let guid = candidate.guid;
    // Close the devices that were opened for reading before they are opened again.
    drop(candidate);
    let found = scan(&paths, opener);
    if let Some(failure) = found.failures.iter().find_map(of_store) {
        return Err(StoreRefusal::Unreachable { reason: failure }.into());
    }
    let mut candidates = assemble(found).into_iter();
    let found = candidates.find(|candidate| candidate.guid == guid);
    found.ok_or_else(|| ControlError::NoSuchCandidate {
        pool: guid.to_string(),
    })
}

/// Failures to report: those of named places, and missing permissions. Drives without a medium and
/// the like are passed over.
fn unreadable(search: &Search, failures: &[DeviceError]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut denied: Vec<String> = Vec::new();
    for failure in failures {
        let (path, reason) = match failure {
            DeviceError::Open { path, source } => (Some(path), source.kind()),
            _ => (None, ErrorKind::Other),
        };
        let is_named = path.is_none_or(|path| {
            let mut named = search.paths.iter();
            named.any(|named| place(Path::new(named)) == *path)
        });
        match is_named && !search.paths.is_empty() {
            true => lines.push(failure.to_string()),
            false if reason == ErrorKind::PermissionDenied => {
                denied.extend(path.map(|path| path.display().to_string()));
            }
            false => {}
        }
    }
    if !denied.is_empty() {
        let more = match denied.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        denied.truncate(NAMED_MAX);
        let named = denied.join(", ");
        lines.push(format!(
            "cannot be opened: permission denied: {named}{more}"
        ));
    }
    lines
}
