//! `zpool status`: health, what a pool is doing, what is wrong with it and since when.

use crate::errors::of_dsl;
use cenote_base::{ObjectId, ObjsetId};
use cenote_control::model::{
    CheckpointState, Condition, ControlError, DataError, DataErrorPlace, DedupBucket, DedupSum,
    DedupSummary, FeatureName, PoolStatus, RaidzExpand, RawName, Rebuild, RemovalActivity,
    Response, RunState, Scan, ScanKind, Vdev, VdevAux, VdevNaming, VdevState, VdevTree,
};
use cenote_dsl::{ActivityState, Dataset, Dsl, DslError, ErrorEntry};
use cenote_ondisk::device_removal::{MAPPING_ENTRY_SIZE, MappingHeader, RemovalState};
use cenote_ondisk::features;
use cenote_ondisk::features::{FEATURES, Feature};
use cenote_ondisk::scan::{FLAG_PAUSED, ScanFunction, ScanState};
use cenote_pool::FailMode;
use cenote_posix::FileSystem;
use std::collections::HashMap;
use std::sync::Arc;

use super::Engine;
use super::compatibility::compatibility;
use super::pool_properties::{LATER_FEATURES, health};
use super::registry::Imported;
use super::vdevs::{all_vdevs, vdev_tree};

/// Errors that are listed with their paths.
const ERRORS_MAX: usize = 10_000;

/// A dataset with errors, and its files if they can be opened.
type OpenDataset = (Dataset, Option<Arc<FileSystem>>);

impl Engine {
    pub(super) fn pool_status(
        &self,
        names: &[String],
        errors: bool,
        dedup: bool,
    ) -> Result<Response, ControlError> {
        let (found, mut failures) = self.pools_named(names);
        let mut pools = Vec::new();
        for imported in found {
            match self.status_of(&imported, errors, dedup) {
                Ok(status) => pools.push(status),
                Err(error) => failures.push((imported.name().to_owned(), error)),
            }
        }
        Ok(Response::Statuses { pools, failures })
    }

    fn status_of(
        &self,
        imported: &Arc<Imported>,
        errors: bool,
        dedup: bool,
    ) -> Result<PoolStatus, ControlError> {
        let pool = &imported.pool;
        let dsl = pool.dsl();
        let vdevs = vdev_tree(pool);
        let mut log = dsl.error_log().map_err(of_dsl)?;
        log.append(&mut imported.damage.entries());
        let scan = scan_of(dsl)?;
        let condition = condition(imported, &vdevs, log.len(), scan.as_ref());
        Ok(PoolStatus {
            name: pool.name().to_owned(),
            guid: pool.guid().0,
            txg: pool.txg().0,
            version: pool.uberblock().version,
            health: health(imported),
            condition,
            scan,
            rebuilds: rebuilds(imported, &vdevs).map_err(of_dsl)?,
            removal: removal(imported, &vdevs).map_err(of_dsl)?,
            checkpoint: checkpoint(dsl, vdevs.root.space.checkpoint).map_err(of_dsl)?,
            expand: expansion(imported, &vdevs).map_err(of_dsl)?,
            vdevs,
            error_count: log.len() as u64,
            errors: match errors {
                true => self.places(imported, log.into_iter().take(ERRORS_MAX)),
                false => Vec::new(),
            },
            intent_logs: imported.intent_logs(),
            dedup: match dedup {
                true => Some(dedup_summary(dsl).map_err(of_dsl)?),
                false => None,
            },
        })
    }

    /// Where the errors on record are, each object once.
    fn places(&self, imported: &Imported, log: impl Iterator<Item = ErrorEntry>) -> Vec<DataError> {
        let mut open: HashMap<ObjsetId, Option<OpenDataset>> = HashMap::new();
        let mut errors: Vec<DataError> = Vec::new();
        for entry in log {
            let found = open.entry(entry.objset).or_insert_with(|| {
                let id = ObjectId(entry.objset.0);
                let dataset = imported.dsl().dataset_of(id).ok()?;
                let files = imported.files(&dataset).ok();
                Some((dataset, files))
            });
            let place = match (entry.objset, found) {
                (ObjsetId::MOS, _) => DataErrorPlace::Metadata {
                    object: entry.object.0,
                },
                (objset, None) => DataErrorPlace::Unknown {
                    objset: objset.0,
                    object: entry.object.0,
                },
                (_, Some((dataset, files))) => {
                    self.place_in(dataset, files.as_deref(), entry.object)
                }
            };
            let error = DataError { place };
            if errors.last() != Some(&error) {
                errors.push(error);
            }
        }
        errors
    }

    /// A damaged object of a dataset: by its path if that can be found.
    fn place_in(
        &self,
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
        match self.mounts.place_of(&name) {
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
}

fn scan_of(dsl: &Dsl) -> Result<Option<Scan>, ControlError> {
    // An unknown layout of the scan's state is not worth failing the whole status for.
    let Ok(Some(scan)) = dsl.scan() else {
        return Ok(None);
    };
    let kind = match scan.function {
        ScanFunction::Scrub => ScanKind::Scrub,
        ScanFunction::Resilver => ScanKind::Resilver,
        ScanFunction::ErrorScrub => ScanKind::ErrorScrub,
        ScanFunction::None => return Ok(None),
    };
    let state = match scan.state {
        ScanState::Scanning => RunState::Running,
        ScanState::Finished => RunState::Finished,
        ScanState::Canceled => RunState::Canceled,
        ScanState::None => return Ok(None),
    };
    let paused = scan.flags & FLAG_PAUSED != 0;
    Ok(Some(Scan {
        kind,
        state,
        start_time: scan.start_time,
        end_time: scan.end_time,
        to_examine: scan.to_examine,
        examined: scan.examined,
        skipped: scan.skipped,
        processed: scan.processed,
        errors: scan.errors,
        pass_examined: 0,
        pass_start: scan.start_time,
        pause_time: if paused { scan.start_time } else { 0 },
        paused_seconds: 0,
        pass_issued: 0,
        issued: scan.examined.saturating_sub(scan.skipped),
    }))
}

fn run_state(state: ActivityState) -> RunState {
    match state {
        ActivityState::Running => RunState::Running,
        ActivityState::Finished => RunState::Finished,
        ActivityState::Canceled => RunState::Canceled,
    }
}

fn name_of(tree: &VdevTree, guid: u64) -> String {
    let vdev = all_vdevs(tree).into_iter().find(|vdev| vdev.guid == guid);
    vdev.map_or_else(|| guid.to_string(), |vdev| vdev.name(VdevNaming::default()))
}

fn rebuilds(imported: &Imported, tree: &VdevTree) -> Result<Vec<Rebuild>, DslError> {
    let mut rebuilds = Vec::new();
    for top in &imported.pool.vdev_tree().children {
        let Some(zap) = top.top_zap else {
            continue;
        };
        let Some(found) = imported.dsl().rebuild(zap)? else {
            continue;
        };
        rebuilds.push(Rebuild {
            vdev: name_of(tree, top.guid.0),
            state: run_state(found.state),
            start_time: found.start_time,
            end_time: found.end_time,
            elapsed_ms: found.scan_time_ms,
            to_examine: found.estimated,
            examined: found.scanned,
            issued: found.issued,
            rebuilt: found.rebuilt,
            errors: found.errors,
        });
    }
    Ok(rebuilds)
}

fn removal(imported: &Imported, tree: &VdevTree) -> Result<Option<RemovalActivity>, DslError> {
    let Some(found) = imported.dsl().removal()? else {
        return Ok(None);
    };
    let state = match found.state {
        RemovalState::None => return Ok(None),
        RemovalState::Removing => RunState::Running,
        RemovalState::Finished => RunState::Finished,
        RemovalState::Canceled => RunState::Canceled,
    };
    let vdev = tree
        .root
        .children
        .iter()
        .find(|vdev| vdev.id == found.vdev.0);
    let vdev = vdev.filter(|_| state == RunState::Running);
    Ok(Some(RemovalActivity {
        state,
        vdev_id: found.vdev.0,
        vdev: vdev.map(|vdev| vdev.name(VdevNaming::default())),
        start_time: found.start_time,
        end_time: found.end_time,
        to_copy: found.to_copy,
        copied: found.copied,
        mapping_memory: mapping_memory(imported)?,
    }))
}

/// Bytes that the mappings of all removed vdevs take in memory.
fn mapping_memory(imported: &Imported) -> Result<u64, DslError> {
    let mut bytes = 0u64;
    for top in &imported.pool.vdev_tree().children {
        let Some(id) = top.indirect_object else {
            continue;
        };
        let object = imported.pool.mos().object(id)?;
        if let Ok(header) = MappingHeader::decode(&object.dnode().bonus) {
            bytes = bytes.saturating_add(header.entries.saturating_mul(MAPPING_ENTRY_SIZE as u64));
        }
    }
    Ok(bytes)
}

fn expansion(imported: &Imported, tree: &VdevTree) -> Result<Option<RaidzExpand>, DslError> {
    for top in &imported.pool.vdev_tree().children {
        let Some(zap) = top.top_zap else {
            continue;
        };
        let Some(found) = imported.dsl().expansion(zap)? else {
            continue;
        };
        let vdev = tree
            .root
            .children
            .iter()
            .find(|vdev| vdev.guid == top.guid.0);
        return Ok(Some(RaidzExpand {
            state: run_state(found.state),
            vdev: name_of(tree, top.guid.0),
            start_time: found.start_time,
            end_time: found.end_time,
            to_reflow: vdev.map_or(0, |vdev| vdev.space.allocated),
            reflowed: found.bytes_copied,
            waiting_for_resilver: false,
        }));
    }
    Ok(None)
}

fn checkpoint(dsl: &Dsl, space: u64) -> Result<Option<CheckpointState>, DslError> {
    Ok(match dsl.checkpoint()? {
        Some(uberblock) => Some(CheckpointState::Exists {
            time: uberblock.timestamp,
            space,
        }),
        None if dsl.features().is_active(features::ZPOOL_CHECKPOINT) => {
            Some(CheckpointState::Discarding { space })
        }
        None => None,
    })
}

fn dedup_summary(dsl: &Dsl) -> Result<DedupSummary, DslError> {
    let figures = dsl.dedup_figures()?;
    let used = figures.histogram.iter().zip(0..);
    let used = used.filter(|(bucket, _)| bucket.blocks > 0);
    let histogram = used.map(|(bucket, power)| DedupBucket {
        power,
        stored: DedupSum {
            blocks: bucket.blocks,
            logical: bucket.logical,
            physical: bucket.physical,
            allocated: bucket.allocated,
        },
        referenced: DedupSum {
            blocks: bucket.referenced_blocks,
            logical: bucket.referenced_logical,
            physical: bucket.referenced_physical,
            allocated: bucket.referenced_allocated,
        },
    });
    Ok(DedupSummary {
        entries: figures.entries,
        on_disk: figures.on_disk,
        in_core: figures.in_core,
        histogram: histogram.collect(),
    })
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
    if leaf(&|vdev| vdev.state == VdevState::Offline) {
        return Some(Condition::OfflineDevice);
    }
    if leaf(&|vdev| vdev.state == VdevState::Removed) {
        return Some(Condition::RemovedDevice);
    }
    pool_condition(imported)
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
    let errata = pool.config().errata;
    if errata != 0 {
        return Some(Condition::Errata(errata));
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
