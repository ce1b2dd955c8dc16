//! `cenote verify` by the daemon: the pool layer does it, here it is reported.

use cenote_base::ObjectId;
use cenote_base::rt::{self, Mutex, ranks};
use cenote_control::model::{
    ControlError, CopyCheck, DamagedFile, Part, RawName, Response, VerifyOptions, VerifyProgress,
    VerifyReport,
};
use cenote_control::protocol::Reply;
use cenote_dsl::KeyStatus;
use cenote_pool::verify::{self, DamagedBlock, Watcher};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::errors::parse_name;
use crate::registry::imported::Imported;
use crate::registry::table::Registry;
use crate::registry::walk::walk_heads;

/// How often progress is reported.
const REPORT_INTERVAL: Duration = Duration::from_millis(250);

/// What the workers leave for the thread that talks to the client.
#[derive(Default)]
struct Shared {
    progress: Mutex<VerifyProgress, ranks::VerifyProgress>,
    cancelled: AtomicBool,
}

impl Watcher for Shared {
    fn progress(&self, progress: &verify::VerifyProgress) {
        let mut shared = self.progress.lock();
        *shared = VerifyProgress {
            done: progress.bytes_done,
            total: progress.bytes_total,
            blocks: progress.blocks,
            damaged: progress.problems,
        };
    }

    fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

pub(crate) fn verify(
    registry: &Registry,
    pool: &str,
    options: &VerifyOptions,
    reply: &mut dyn Reply,
) -> Result<Response, ControlError> {
    let imported = registry.pool(pool)?;
    if !options.datasets.is_empty() {
        return Err(ControlError::Unsupported {
            what: "verifying single datasets".to_owned(),
        });
    }
    let wanted = verify::VerifyOptions {
        all_copies: options.all_copies,
        state_file: options.resume_from.as_ref().map(PathBuf::from),
    };
    let shared = Shared::default();
    let result = rt::scope(|scope| {
        let worker = scope.spawn(|| verify::verify(&imported.pool, &wanted, &shared));
        while !worker.is_finished() {
            rt::park_timeout(REPORT_INTERVAL);
            let progress = *shared.progress.lock();
            if reply.cancelled() || reply.part(Part::Verify(progress)).is_err() {
                shared.cancelled.store(true, Ordering::Relaxed);
            }
        }
        worker.join()
    });
    let report = result.map_err(|_| ControlError::Internal {
        detail: "the verification ended by a broken invariant".to_owned(),
    })?;
    let report = report.map_err(|error| ControlError::Io {
        place: error.to_string(),
    })?;
    let report = Box::new(report_of(&imported, report, options));
    Ok(Response::Verified { report })
}

fn report_of(
    imported: &Arc<Imported>,
    report: verify::VerifyReport,
    options: &VerifyOptions,
) -> VerifyReport {
    let contradictions = report.space.iter().chain(&report.accounting);
    let mut locked = Vec::new();
    walk_heads(imported.dsl(), |head| {
        let status = imported.dsl().key_status(head.directory());
        if status.is_ok_and(|status| status == KeyStatus::Unavailable) {
            locked.push(head.name().as_str().to_owned());
        }
    });
    VerifyReport {
        pool: report.pool,
        blocks: report.blocks,
        bytes: report.bytes_allocated,
        copies: CopyCheck {
            checked: if options.all_copies { report.blocks } else { 0 },
            bad: report.bad_copies,
        },
        damaged: damaged_files(imported, &report.damaged),
        leaked: 0,
        doubly_allocated: 0,
        mismatches: contradictions.map(|text| (text.clone(), 0, 0)).collect(),
        locked,
        interrupted: !report.complete,
    }
}

/// The damaged blocks by file, with the byte ranges that are lost.
fn damaged_files(imported: &Imported, blocks: &[DamagedBlock]) -> Vec<DamagedFile> {
    let mut files: BTreeMap<(&str, u64), DamagedFile> = BTreeMap::new();
    for block in blocks {
        let key = (block.dataset.as_str(), block.object);
        let file = files.entry(key).or_insert_with(|| DamagedFile {
            dataset: block.dataset.clone(),
            path: path_of(imported, block),
            object: block.object,
            ranges: Vec::new(),
        });
        file.ranges.extend(range_of(imported, block));
    }
    files.into_values().collect()
}

fn path_of(imported: &Imported, block: &DamagedBlock) -> Option<RawName> {
    if let Some(path) = &block.path {
        return Some(RawName::from(path.as_str()));
    }
    let name = parse_name(&block.dataset).ok()?;
    let dataset = imported.dsl().dataset(&name).ok()?;
    let files = imported.files(&dataset).ok()?;
    let path = files.path_of(ObjectId(block.object)).ok()?;
    Some(RawName(path))
}

/// Offset and length of what a block covers of its object; none for a spill block.
fn range_of(imported: &Imported, block: &DamagedBlock) -> Option<(u64, u64)> {
    if block.block == u64::MAX {
        return None;
    }
    let name = parse_name(&block.dataset).ok()?;
    let dataset = imported.dsl().dataset(&name).ok()?;
    let set = dataset.object_set().ok()?;
    let dnode = set.dnode(ObjectId(block.object)).ok()??;
    let shift = dnode.indirect_fanout_shift() * u32::from(block.level);
    let length = dnode.data_block_size.checked_shl(shift)?;
    let offset = block.block.checked_mul(length)?;
    Some((offset, length))
}
