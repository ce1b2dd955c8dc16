//! Looks at a pool without taking it: what an import would find.

use crate::host::hostid;
use cenote_control::model::Rewound;
use cenote_pool::{Buffers, Pool, PoolCandidate};

/// Memory for a look at a pool.
const TRIAL_CACHE_BYTES: u64 = 8 << 20;
const TRIAL_BUFFER_BYTES: u64 = 40 << 20;

/// Options for reading a pool for inspection, even if it is in use or lacks log devices.
pub(crate) fn trial() -> cenote_pool::ImportOptions {
    cenote_pool::ImportOptions {
        read_only: true,
        force: true,
        missing_logs: true,
        cache_bytes: TRIAL_CACHE_BYTES,
        buffers: Buffers::new(TRIAL_BUFFER_BYTES),
        ..cenote_pool::ImportOptions::default()
    }
}

/// The same as an import for writing would judge it, so that no older copy of a device serves.
pub(crate) fn trial_for_writing() -> cenote_pool::ImportOptions {
    cenote_pool::ImportOptions {
        dry_run: true,
        hostid: hostid(),
        ..trial()
    }
}

/// The state gone back to and the seconds that this discards.
pub(crate) fn rewound(candidate: &PoolCandidate, pool: &Pool) -> Option<Rewound> {
    let newest = candidate.uberblocks().into_iter().next()?;
    let opened = pool.opened_at();
    let lost = newest.timestamp.saturating_sub(opened.timestamp);
    (opened.txg < newest.txg).then_some(Rewound {
        txg: opened.txg.0,
        time: opened.timestamp,
        lost_seconds: lost,
    })
}
