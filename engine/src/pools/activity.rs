//! What a pool is doing, or did last: scans, rebuilds, removals, expansions; and its tables of
//! shared blocks.

use crate::devices::tree::all_vdevs;
use crate::registry::imported::Imported;
use cenote_control::model::{
    CheckpointState, DedupBucket, DedupSum, DedupSummary, RaidzExpand, Rebuild, RemovalActivity,
    RunState, Scan, ScanKind, VdevNaming, VdevTree,
};
use cenote_dsl::{ActivityState, Dsl, DslError};
use cenote_ondisk::device_removal::{MAPPING_ENTRY_SIZE, MappingHeader, RemovalState};
use cenote_ondisk::scan::{FLAG_PAUSED, ScanFunction, ScanState};
use cenote_pool::Pool;

/// The last or running scan: of all blocks, or of the known damaged ones.
pub(crate) fn scan_of(pool: &Pool) -> Option<Scan> {
    let scan = block_scan_of(pool);
    let errors = error_scrub_of(pool);
    let is_later = |errors: &Scan| scan.as_ref().is_none_or(|s| s.end_time < errors.start_time);
    let is_running = scan
        .as_ref()
        .is_some_and(|scan| scan.state == RunState::Running);
    match errors.filter(|errors| is_later(errors) && !is_running) {
        Some(errors) => Some(errors),
        None => scan,
    }
}

fn error_scrub_of(pool: &Pool) -> Option<Scan> {
    let scrub = pool.dsl().error_scrub().ok().flatten()?;
    let state = match scrub.state {
        2 => RunState::Finished,
        3 => RunState::Canceled,
        4 => RunState::Running,
        _ => return None,
    };
    Some(Scan {
        kind: ScanKind::ErrorScrub,
        state,
        start_time: scrub.start_time,
        end_time: scrub.end_time,
        to_examine: scrub.to_examine,
        examined: scrub.examined,
        skipped: 0,
        processed: 0,
        errors: scrub.errors,
        pass_examined: 0,
        pass_start: scrub.start_time,
        pause_time: scrub.paused_time,
        paused_seconds: 0,
        pass_issued: 0,
        issued: scrub.examined,
    })
}

fn block_scan_of(pool: &Pool) -> Option<Scan> {
    // An unknown layout of the scan's state is not worth failing the whole status for.
    let found = pool.scan_status().ok().flatten()?;
    let scan = found.scan;
    let kind = match scan.function {
        ScanFunction::Scrub => ScanKind::Scrub,
        ScanFunction::Resilver => ScanKind::Resilver,
        ScanFunction::ErrorScrub => ScanKind::ErrorScrub,
        ScanFunction::None => return None,
    };
    let state = match scan.state {
        ScanState::Scanning => RunState::Running,
        ScanState::Finished => RunState::Finished,
        ScanState::Canceled => RunState::Canceled,
        ScanState::None => return None,
    };
    let paused = scan.flags & FLAG_PAUSED != 0;
    let pause_time = match found.pause_time {
        0 => scan.start_time,
        time => time,
    };
    Some(Scan {
        kind,
        state,
        start_time: scan.start_time,
        end_time: scan.end_time,
        to_examine: scan.to_examine,
        examined: scan.examined,
        skipped: scan.skipped,
        processed: scan.processed,
        errors: scan.errors,
        pass_examined: found.pass_examined,
        pass_start: match found.pass_start {
            0 => scan.start_time,
            time => time,
        },
        pause_time: if paused { pause_time } else { 0 },
        paused_seconds: 0,
        pass_issued: found.pass_issued,
        issued: scan.examined.saturating_sub(scan.skipped),
    })
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

pub(crate) fn rebuilds(imported: &Imported, tree: &VdevTree) -> Result<Vec<Rebuild>, DslError> {
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

pub(crate) fn removal(
    imported: &Imported,
    tree: &VdevTree,
) -> Result<Option<RemovalActivity>, DslError> {
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

pub(crate) fn expansion(
    imported: &Imported,
    tree: &VdevTree,
) -> Result<Option<RaidzExpand>, DslError> {
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

pub(crate) fn checkpoint(dsl: &Dsl, space: u64) -> Result<Option<CheckpointState>, DslError> {
    Ok(match dsl.checkpoint()? {
        Some(uberblock) => Some(CheckpointState::Exists {
            time: uberblock.timestamp,
            space,
        }),
        None if dsl.features().is_active("com.delphix:zpool_checkpoint") => {
            Some(CheckpointState::Discarding { space })
        }
        None => None,
    })
}

pub(crate) fn dedup_summary(dsl: &Dsl) -> Result<DedupSummary, DslError> {
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
