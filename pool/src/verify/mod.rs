//! Verification: reading and checking every block of the pool once.
//!
//! Beyond what a scrub does, blocks are decompressed and, where keys are loaded, decrypted and
//! authenticated; the space that the block trees take is compared with the space maps; and the
//! datasets' accounting is recomputed. It can be interrupted and resumed.

mod claims;
mod leaves;
mod report;
mod segment_map;
mod sources;
mod state;
mod walk;

pub use report::{
    DamagedBlock, PROBLEMS_MAX, VerifyOptions, VerifyProgress, VerifyReport, Watcher,
};
pub use sources::{clones, deferred, log_blocks, roots};
pub use state::StateError;

use crate::error::ImportError;
use crate::pool::Pool;
use cenote_base::Txg;
use cenote_dmu::traverse::{DiskOrder, Limits, Since};
use claims::{Claims, VdevClaims};
use leaves::Engine;
use segment_map::SegmentMap;
use state::Identity;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use walk::{Books, Pause, Walk};

/// How often the state is saved.
const SAVE_EVERY: Duration = Duration::from_secs(60);

/// Why a verification cannot begin or resume.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The list of what to verify cannot be read.
    #[error(transparent)]
    Pool(#[from] ImportError),
    /// The state file is of no use.
    #[error(transparent)]
    State(#[from] StateError),
}

/// Verifies `pool`, or resumes where the state file says.
pub fn verify(
    pool: &Pool,
    options: &VerifyOptions,
    watcher: &dyn Watcher,
) -> Result<VerifyReport, VerifyError> {
    let view = match pool.is_writable() {
        true => Some(pool.view()?),
        false => None,
    };
    let pool = view.as_ref().unwrap_or(pool);
    let engine = Engine::new(pool, options.clone());
    let mut walk = begin(pool, Txg(0))?;
    let (pool_guid, txg) = (pool.guid().0, pool.txg().0);
    let identity = Identity {
        pool_guid,
        txg,
        all_copies: options.all_copies,
    };
    if let Some(path) = &options.state_file {
        state::load(path, &mut walk, identity)?;
    }
    let saved = Cell::new(pool.env().monotonic());
    loop {
        let due =
            || options.state_file.is_some() && pool.env().monotonic() - saved.get() >= SAVE_EVERY;
        let pause = walk.run(&engine, watcher, &due);
        match (pause, &options.state_file) {
            (Pause::Finished, _) => break,
            (_, Some(path)) => state::save(path, &walk, identity)?,
            (_, None) => {}
        }
        saved.set(pool.env().monotonic());
        if pause == Pause::Cancelled {
            return Ok(walk.books.report);
        }
    }
    let mut report = finish(pool, walk);
    if let Some(path) = &options.state_file {
        // The verification is complete, so the next one starts from the beginning.
        let _ = std::fs::remove_file(path);
    }
    report.complete = true;
    Ok(report)
}

/// A verification of all that was born after `since`.
fn begin(pool: &Pool, since: Txg) -> Result<Walk, ImportError> {
    pool.cache().pipeline().vdevs().begin_verification();
    let claims = pool.metaslabs().iter().map(|vdev| {
        (
            vdev.vdev.0,
            VdevClaims {
                ashift: vdev.ashift,
                map: SegmentMap::default(),
            },
        )
    });
    let mut vdevs: BTreeMap<u64, VdevClaims> = claims.collect();
    // Removed vdevs have no space of their own, but addresses on them are claimed once, too.
    for top in &pool.vdev_tree().children {
        if top.kind == cenote_ondisk::VdevKind::Indirect {
            let ashift = top.ashift.unwrap_or(9);
            let claims = VdevClaims {
                ashift,
                map: SegmentMap::default(),
            };
            vdevs.insert(top.id.unwrap_or_default().0, claims);
        }
    }
    let clones = sources::clones(pool)?;
    let report = VerifyReport {
        pool: pool.name().to_owned(),
        txg: pool.txg().0,
        ..VerifyReport::default()
    };
    let (names, mut roots): (Vec<_>, Vec<_>) = sources::roots(pool)?.into_iter().unzip();
    for root in &mut roots {
        root.since = Since::accounting(root.since.txg.max(since));
    }
    let workers = Arc::clone(pool.cache().workers());
    let books = Books {
        names,
        metadata_only: false,
        claims: Claims { vdevs, clones },
        report,
        bytes_total: pool.space().values().map(|space| space.allocated).sum(),
    };
    Ok(Walk {
        order: DiskOrder::new(roots, workers, Limits::default()),
        books,
    })
}

/// Reports no progress and never cancels.
struct Unwatched;

impl Watcher for Unwatched {
    fn progress(&self, _: &VerifyProgress) {}

    fn cancelled(&self) -> bool {
        false
    }
}

/// Whether all metadata born after `since` can be read: what a rewind asks of a txg before it
/// is content with it (format/1 1.5, step 9).
pub(crate) fn recent_metadata_is_good(pool: &Pool, since: Txg) -> Result<bool, ImportError> {
    is_good(pool, since, true)
}

/// Whether all that was born after `since` can be read.
pub(crate) fn recent_blocks_are_good(pool: &Pool, since: Txg) -> Result<bool, ImportError> {
    is_good(pool, since, false)
}

fn is_good(pool: &Pool, since: Txg, metadata_only: bool) -> Result<bool, ImportError> {
    let mut walk = begin(pool, since)?;
    walk.books.metadata_only = metadata_only;
    let engine = Engine::new(pool, VerifyOptions::default());
    let pause = walk.run(&engine, &Unwatched, &|| false);
    assert_eq!(
        pause,
        Pause::Finished,
        "nothing cancels and no state is due"
    );
    let report = &walk.books.report;
    Ok(report.damaged.is_empty() && report.space.is_empty())
}

/// Devices in use that missed something. Their old copies are expected and not reported as bad, so
/// this is the only report about them.
fn stale(pool: &Pool) -> Vec<String> {
    let shape = pool.vdevs();
    let tree = pool.vdev_tree();
    let leaves = tree.leaves().map(|leaf| leaf.guid);
    let stale = leaves.filter(|leaf| shape.is_open(*leaf) && !shape.dtl(*leaf).is_empty());
    stale.map(|leaf| pool.name_of(leaf)).collect()
}

/// Compares the claims with the space maps, and the accounting with the computed sums.
fn finish(pool: &Pool, mut walk: Walk) -> VerifyReport {
    let mut notes = Vec::new();
    sources::claim_other_space(pool, &mut walk.books.claims, &mut notes);
    let mut report = walk.books.report;
    report.notes.append(&mut notes);
    sources::compare_space(pool, &walk.books.claims, &mut report);
    for problem in cenote_dsl::check(pool.dsl()) {
        report.problems += 1;
        report.accounting.push(problem.to_string());
    }
    report.stale = stale(pool);
    report
}
