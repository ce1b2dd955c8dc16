//! `zpool status`: health, what a pool is doing, what is wrong with it and since when.

use crate::clouds::status::stores_of;
use crate::context::Context;
use crate::errors::of_dsl;
use cenote_base::{Guid, ObjectId, ObjsetId};
use cenote_control::model::{
    Condition, ControlError, DataError, DataErrorPlace, Due, FeatureName, PoolStatus, RawName,
    Rebuild, Response, RunState, Scan, ScanKind, Vdev, VdevAux, VdevState, VdevTree,
};
use cenote_dsl::{Dataset, Dsl, ErrorEntry, SnapshotEntry};
use cenote_ondisk::crypto_key;
use cenote_ondisk::dsl_dataset::fields::IVSET_GUID;
use cenote_ondisk::features::{self, FEATURES, Feature};
use cenote_pool::FailMode;
use cenote_posix::FileSystem;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::activity::{checkpoint, dedup_summary, expansion, rebuilds, removal, scan_of};
use super::compatibility::{LATER_FEATURES, compatibility};
use super::diagnosis::not_used;
use crate::devices::tree::{all_vdevs, display_name, shared_tree};
use crate::mounts::table::Mounts;
use crate::registry::imported::Imported;
use crate::registry::table::Registry;
use crate::registry::walk::walk_heads;

/// Errors that are listed with their paths.
const ERRORS_MAX: usize = 10_000;

pub(crate) fn pool_status(
    context: &Context,
    mounts: &Mounts,
    names: &[String],
    errors: bool,
    dedup: bool,
) -> Result<Response, ControlError> {
    let (found, mut failures) = context.registry.named(names);
    let mut pools = Vec::new();
    for imported in found {
        match status_of((context, mounts), &imported, errors, dedup) {
            Ok(status) => pools.push(status),
            Err(error) => failures.push((imported.name().to_owned(), error)),
        }
    }
    Ok(Response::Statuses { pools, failures })
}

/// What is about to begin: a resilver for what a device misses, unless one was made for just that;
/// a scrub that waits for the resilver.
fn due(imported: &Imported) -> Due {
    let pool = &imported.pool;
    if !pool.is_writable() || pool.suspended().is_some() {
        return Due::default();
    }
    let tried = imported.resilver_tried.load(Ordering::Acquire);
    let needed = pool.vdevs().is_resilver_needed();
    Due {
        resilver: needed.is_some_and(|txgs| txgs.end.0 != tried),
        scrub: pool.scrub_follows(),
    }
}

fn status_of(
    (context, mounts): (&Context, &Mounts),
    imported: &Arc<Imported>,
    errors: bool,
    dedup: bool,
) -> Result<PoolStatus, ControlError> {
    let pool = &imported.pool;
    let dsl = pool.dsl();
    let clouds = &context.clouds;
    let vdevs = shared_tree(&context.registry.all(), pool);
    let log = pool.error_log().map_err(of_dsl)?;
    let scan = scan_of(pool);
    let rebuilds = rebuilds(imported, &vdevs).map_err(of_dsl)?;
    let condition = match rebuilding(&rebuilds, scan.as_ref()) {
        Some(condition) if pool.suspended().is_none() => Some(condition),
        _ => condition(imported, &vdevs, log.len(), scan.as_ref()),
    };
    Ok(PoolStatus {
        name: pool.name().to_owned(),
        guid: pool.guid().0,
        txg: pool.txg().0,
        version: pool.uberblock().version,
        health: imported.health(),
        condition,
        scan,
        due: due(imported),
        rebuilds,
        removal: removal(imported, &vdevs).map_err(of_dsl)?,
        checkpoint: checkpoint(dsl, vdevs.root.space.checkpoint).map_err(of_dsl)?,
        expand: expansion(imported, &vdevs).map_err(of_dsl)?,
        vdevs,
        error_count: log.len() as u64,
        errors: match errors {
            true => places(mounts, imported, log.into_iter().take(ERRORS_MAX)),
            false => Vec::new(),
        },
        intent_logs: imported.intent_logs(),
        dedup: match dedup {
            true => Some(dedup_summary(dsl).map_err(of_dsl)?),
            false => None,
        },
        waiting: imported.waiting.list(dsl),
        stores: stores_of(clouds, imported),
        outsiders: not_used(&pool.vdev_tree(), &pool.outsiders()),
        is_writable: imported.pool.is_writable(),
        injected: context.injections.count(imported),
        unread: {
            let tables = pool.unread().iter().map(ToString::to_string);
            tables.chain(pool.unread_space()).collect()
        },
    })
}

/// The places of the recorded errors, each object once.
fn places(
    mounts: &Mounts,
    imported: &Imported,
    log: impl Iterator<Item = ErrorEntry>,
) -> Vec<DataError> {
    let mut open: HashMap<ObjectId, Option<Arc<FileSystem>>> = HashMap::new();
    let mut errors: Vec<DataError> = Vec::new();
    let mut seen: HashSet<(u64, u64)> = HashSet::new();
    let mut push = |objset: u64, place: &dyn Fn() -> DataErrorPlace, object: u64| {
        if seen.insert((objset, object)) {
            errors.push(DataError { place: place() });
        }
    };
    for entry in log {
        let object = entry.object.0;
        if entry.objset == ObjsetId::MOS {
            push(0, &|| DataErrorPlace::Metadata { object }, object);
            continue;
        }
        let datasets = imported.dsl().datasets_with(&entry);
        if datasets.is_empty() {
            let objset = entry.objset.0;
            push(
                objset,
                &|| DataErrorPlace::Unknown { objset, object },
                object,
            );
        }
        for dataset in datasets {
            let files = open.entry(dataset.id());
            let files = files.or_insert_with(|| imported.files(&dataset).ok());
            let place = || place_in(Some(mounts), &dataset, files.as_deref(), entry.object);
            push(dataset.id().0, &place, object);
        }
    }
    errors
}

/// Where an object of a pool is: at its path below a mount, or with `in_dataset` in its dataset.
pub(crate) fn object_place(
    registry: &Registry,
    mounts: &Mounts,
    pool: &str,
    (objset, object): (u64, u64),
    in_dataset: bool,
) -> Result<Response, ControlError> {
    let imported = registry.pool(pool)?;
    let place = match imported.dsl().dataset_of(ObjectId(objset)) {
        Ok(dataset) => {
            let files = imported.files(&dataset).ok();
            let mounts = (!in_dataset).then_some(mounts);
            place_in(mounts, &dataset, files.as_deref(), ObjectId(object))
        }
        Err(_) if objset == 0 => DataErrorPlace::Metadata { object },
        Err(_) => DataErrorPlace::Unknown { objset, object },
    };
    Ok(Response::Place { place })
}

/// An object of a dataset: by its path if that can be found, below a mount of it if there is one.
fn place_in(
    mounts: Option<&Mounts>,
    dataset: &Dataset,
    files: Option<&FileSystem>,
    object: ObjectId,
) -> DataErrorPlace {
    let name = dataset.name().as_str().to_owned();
    let path = files.and_then(|files| files.path_of(object).ok());
    let Some(path) = path else {
        return DataErrorPlace::Object {
            dataset: name,
            object: object.0,
        };
    };
    let mut absolute = vec![b'/'];
    let start = path
        .iter()
        .position(|byte| *byte != b'/')
        .unwrap_or(path.len());
    absolute.extend_from_slice(&path[start..]);
    match mounts.and_then(|mounts| mounts.place_of(&name)) {
        Some(place) => {
            let mut full = place.as_os_str().as_encoded_bytes().to_vec();
            if full == b"/" {
                full.clear();
            }
            full.extend_from_slice(&absolute);
            DataErrorPlace::Path(RawName(full))
        }
        None => DataErrorPlace::File {
            dataset: name,
            path: RawName(absolute),
        },
    }
}

/// Whether devices are being rebuilt, or were and nothing of that was verified yet.
fn rebuilding(rebuilds: &[Rebuild], scan: Option<&Scan>) -> Option<Condition> {
    if rebuilds.iter().any(|r| r.state == RunState::Running) {
        return Some(Condition::Rebuilding);
    }
    let ended = rebuilds.iter().filter(|r| r.state == RunState::Finished);
    let last = ended.map(|rebuild| rebuild.end_time).max()?;
    let scrubbed = scan.filter(|scan| scan.kind == ScanKind::Scrub);
    let is_later = scrubbed.is_some_and(|scrub| scrub.start_time >= last);
    (!is_later && scan.is_none_or(|scan| scan.state != RunState::Running))
        .then_some(Condition::RebuildScrub)
}

/// What the administrator should know first.
fn condition(
    imported: &Imported,
    tree: &VdevTree,
    errors: usize,
    scan: Option<&Scan>,
) -> Option<Condition> {
    if let Some(cause) = imported.pool.suspended() {
        return Some(why_suspended(imported, &cause));
    }
    let vdevs = all_vdevs(tree);
    let any = |test: &dyn Fn(&Vdev) -> bool| vdevs.iter().any(|vdev| test(vdev));
    let leaf = |test: &dyn Fn(&Vdev) -> bool| {
        vdevs
            .iter()
            .any(|vdev| vdev.children.is_empty() && test(vdev))
    };
    let resilvering =
        |scan: &&Scan| scan.kind == ScanKind::Resilver && scan.state == RunState::Running;
    if scan.as_ref().is_some_and(resilvering) {
        return Some(Condition::Resilvering);
    }
    let for_write = unsupported_for_write(imported.dsl());
    if !for_write.is_empty() {
        return Some(Condition::UnsupportedWrite(for_write));
    }
    if errors > 0 {
        return Some(Condition::CorruptData);
    }
    let label_gone = |vdev: &Vdev| {
        matches!(
            vdev.aux,
            VdevAux::BadLabel | VdevAux::CorruptData | VdevAux::TooSmall
        )
    };
    if leaf(&|vdev| vdev.state == VdevState::Faulted) {
        return Some(Condition::FaultedDevice);
    }
    let lost_cache = |cache: &Vdev| cache.state == VdevState::CantOpen;
    let lacks_replicas = tree.root.state == VdevState::CantOpen;
    if leaf(&|vdev| vdev.state == VdevState::CantOpen && !label_gone(vdev))
        || tree.cache.iter().any(lost_cache)
    {
        return Some(match lacks_replicas {
            true => Condition::MissingNoReplicas,
            false => Condition::MissingDevice,
        });
    }
    if leaf(&|vdev| vdev.state == VdevState::CantOpen && label_gone(vdev)) {
        return Some(match lacks_replicas {
            true => Condition::CorruptLabelNoReplicas,
            false => Condition::CorruptLabel,
        });
    }
    let failing = |vdev: &Vdev| {
        let counters = &vdev.counters;
        counters.read_errors + counters.write_errors + counters.checksum_errors > 0
    };
    if any(&failing) {
        return Some(Condition::FailingDevice);
    }
    let resting_cache = |cache: &Vdev| cache.state == VdevState::Offline;
    if leaf(&|vdev| vdev.state == VdevState::Offline) || tree.cache.iter().any(resting_cache) {
        return Some(Condition::OfflineDevice);
    }
    if leaf(&|vdev| vdev.state == VdevState::Removed) {
        return Some(Condition::RemovedDevice);
    }
    stale_devices(imported, &vdevs).or_else(|| pool_condition(imported))
}

/// Devices in use that missed something, with those that have it.
fn stale_devices(imported: &Imported, vdevs: &[&Vdev]) -> Option<Condition> {
    let shape = imported.pool.vdevs();
    let leaves = || vdevs.iter().filter(|vdev| vdev.children.is_empty());
    let is_stale = |vdev: &&&Vdev| !shape.dtl(Guid(vdev.guid)).is_empty();
    let names = |vdev: &&Vdev| vdev.path.clone().unwrap_or_else(|| display_name(vdev));
    let stale: Vec<String> = leaves().filter(is_stale).map(names).collect();
    if stale.is_empty() {
        return None;
    }
    let is_needed = |vdev: &&&Vdev| imported.pool.is_needed(Guid(vdev.guid));
    let tree = imported.pool.vdev_tree();
    let tops = &tree.children;
    let is_single = |vdev: &&&Vdev| tops.iter().any(|top| top.guid == Guid(vdev.guid));
    let needed = leaves().filter(|vdev| is_needed(vdev) && !is_single(vdev));
    let needed = needed.map(names).collect();
    Some(Condition::StaleDevices { stale, needed })
}

/// What a pool that takes no more changes is waiting for, or why it does not even wait.
fn why_suspended(imported: &Imported, cause: &str) -> Condition {
    match imported.pool.fail_mode() {
        _ if imported.pool.has_lost_heartbeat() => Condition::IoFailureMultihost,
        _ if !imported.pool.is_waiting() => Condition::IoFailureStopped(cause.to_owned()),
        FailMode::Continue => Condition::IoFailureContinue,
        FailMode::Stop | FailMode::Wait => Condition::IoFailureWait,
    }
}

/// Conditions that have nothing to do with devices.
fn pool_condition(imported: &Imported) -> Option<Condition> {
    let pool = &imported.pool;
    if let Some(number) = errata(imported) {
        return Some(Condition::Errata(number));
    }
    if pool.uberblock().version < cenote_dsl::FEATURE_VERSION {
        let is_kept = pool.remarks().1.as_deref() == Some("legacy");
        return (!is_kept).then_some(Condition::LegacyVersion);
    }
    let (_, sets) = pool.remarks();
    let Ok(wanted) = compatibility(sets.as_deref().unwrap_or_default()) else {
        return Some(Condition::CompatibilityError);
    };
    let features = pool.dsl().features();
    let is_enabled = |feature: &Feature| features.get(feature.guid).is_some();
    let is_later = |feature: &Feature| LATER_FEATURES.contains(&feature.guid);
    let mut missing = wanted.features.iter().filter(|feature| !is_later(feature));
    if missing.any(|feature| !is_enabled(feature)) {
        return Some(Condition::FeaturesDisabled);
    }
    let is_wanted = |feature: &Feature| wanted.features.contains(&feature);
    let mut known = FEATURES.iter().filter(|feature| is_enabled(feature));
    let has_more = known.any(|feature| !is_later(feature) && !is_wanted(feature));
    has_more.then_some(Condition::IncompatibleFeatures)
}

/// What is wrong with the pool's format in itself. No pool notes what encryption in early releases
/// left: datasets whose keys have the version 0 (errata 3), and snapshots without a number for
/// their set of IVs (errata 4), which raw streams need.
fn errata(imported: &Imported) -> Option<u64> {
    let noted = imported.pool.config().errata;
    if noted != 0 {
        return Some(noted);
    }
    let features = imported.dsl().features();
    let is_active = |guid| {
        features
            .get(guid)
            .is_some_and(|feature| feature.is_active())
    };
    if !is_active(features::ENCRYPTION) {
        return None;
    }
    let has_new_bookmarks = features.get(features::BOOKMARK_V2).is_some();
    // New datasets and snapshots have none of that, so one look for each import is enough.
    let look = || encryption_errata(imported.dsl(), has_new_bookmarks);
    let (has_old_keys, lacks_ivset_guids) = *imported.encryption_errata.get_or_init(look);
    match () {
        () if has_old_keys => Some(3),
        () if lacks_ivset_guids && !has_new_bookmarks => Some(4),
        () => None,
    }
}

/// Whether encrypted datasets have keys of the version 0, and whether snapshots of some lack the
/// number of their set of IVs. What cannot be read is reported elsewhere.
fn encryption_errata(dsl: &Arc<Dsl>, has_new_bookmarks: bool) -> (bool, bool) {
    let (mut has_old_keys, mut lacks_ivset_guids) = (false, false);
    walk_heads(dsl, |head| {
        let Ok(Some(key)) = head.directory().crypto_key() else {
            return;
        };
        has_old_keys |= key.stored.version != crypto_key::VERSION;
        if has_new_bookmarks || lacks_ivset_guids {
            return;
        }
        let lacks = |entry: &SnapshotEntry| {
            let snapshot = head.open_snapshot(entry);
            let guid = snapshot.and_then(|snapshot| snapshot.extension_number(IVSET_GUID));
            guid.is_ok_and(|guid| guid.is_none())
        };
        let snapshots = head.listed_snapshots().unwrap_or_default();
        lacks_ivset_guids = snapshots.iter().any(lacks);
    });
    (has_old_keys, lacks_ivset_guids)
}

fn unsupported_for_write(dsl: &Dsl) -> Vec<FeatureName> {
    let features = dsl.features();
    let active = features.iter().filter(|(_, feature)| feature.is_active());
    let unknown = active.filter(|(guid, _)| cenote_ondisk::features::by_guid(guid).is_none());
    unknown
        .map(|(guid, feature)| FeatureName {
            guid: guid.to_owned(),
            description: feature.description.clone().unwrap_or_default(),
        })
        .collect()
}
