//! Figures of pools as a whole, and of their scrubs and resilvers.

use super::table::{
    POOL_ALLOCATED, POOL_BLOCK_BYTES_READ, POOL_BLOCK_BYTES_WRITTEN, POOL_BLOCKS_READ,
    POOL_BLOCKS_WRITTEN, POOL_CHECKPOINT, POOL_DATA_ERRORS, POOL_DEDUP, POOL_FRAGMENTATION,
    POOL_FREE, POOL_FREEING, POOL_INFO, POOL_LEAKED, POOL_READ_ONLY, POOL_SIZE, POOL_STATE,
    POOL_TXG, POOL_UNREADABLE, SCAN_END, SCAN_ERRORS, SCAN_EXAMINED, SCAN_ISSUED, SCAN_RATE,
    SCAN_REPAIRED, SCAN_START, SCAN_STATE, SCAN_TOTAL,
};
use crate::pools::activity::scan_of;
use crate::pools::properties::pool_row;
use crate::registry::imported::Imported;
use cenote_base::metrics::{Measure, Sample, Sink};
use cenote_control::model::{PoolHealth, PropertySelection, RunState, Scan, ScanKind};

/// Properties that are measured as they are.
static SPACES: [(&str, &Measure); 6] = [
    ("size", &POOL_SIZE),
    ("allocated", &POOL_ALLOCATED),
    ("free", &POOL_FREE),
    ("freeing", &POOL_FREEING),
    ("leaked", &POOL_LEAKED),
    ("checkpoint", &POOL_CHECKPOINT),
];

const STATES: [PoolHealth; 7] = [
    PoolHealth::Online,
    PoolHealth::Degraded,
    PoolHealth::Faulted,
    PoolHealth::Offline,
    PoolHealth::Unavail,
    PoolHealth::Removed,
    PoolHealth::Suspended,
];

/// Hundredths as billionths.
fn hundredths(number: u64) -> Sample {
    Sample::Billionths(number.saturating_mul(10_000_000))
}

/// One pool.
pub(super) fn pool(imported: &Imported, sink: &mut dyn Sink) {
    let (name, pool) = (imported.name(), &imported.pool);
    sink.number(&POOL_INFO, &[name, &pool.guid().0.to_string()], 1);
    let health = imported.health();
    for state in STATES {
        let word = state.word().to_ascii_lowercase();
        sink.number(&POOL_STATE, &[name, &word], u64::from(state == health));
    }
    let is_read_only = !pool.is_writable();
    sink.number(&POOL_READ_ONLY, &[name], u64::from(is_read_only));
    sink.number(&POOL_TXG, &[name], pool.txg().0);
    spaces(imported, sink);
    if let Ok(log) = pool.error_log() {
        sink.number(&POOL_DATA_ERRORS, &[name], log.len() as u64);
    }
    let counters = pool.cache().pipeline().counters();
    for (measure, counter) in [
        (&POOL_BLOCKS_READ, &counters.blocks_read),
        (&POOL_BLOCK_BYTES_READ, &counters.bytes_read),
        (&POOL_BLOCKS_WRITTEN, &counters.blocks_written),
        (&POOL_BLOCK_BYTES_WRITTEN, &counters.bytes_written),
        (&POOL_UNREADABLE, &counters.unreadable),
    ] {
        sink.number(measure, &[name], counter.get());
    }
    if let Some(found) = scan_of(pool) {
        let now = pool.env().wall_clock().as_secs();
        scan(name, &found, now, sink);
    }
}

/// What the pool's properties say. A property that cannot be read has no series.
fn spaces(imported: &Imported, sink: &mut dyn Sink) {
    let name = imported.name();
    let number = |property: &str| {
        let selection = PropertySelection::Named(vec![property.to_owned()]);
        let row = pool_row(imported, &[], &selection, false).ok()?;
        row.properties.first()?.value.number()
    };
    for (property, measure) in SPACES {
        if let Some(number) = number(property) {
            sink.number(measure, &[name], number);
        }
    }
    // Not known where space maps have no histograms.
    if let Some(percent) = number("fragmentation").filter(|percent| *percent <= 100) {
        sink.put(&POOL_FRAGMENTATION, &[name], hundredths(percent));
    }
    if let Some(ratio) = number("dedupratio") {
        sink.put(&POOL_DEDUP, &[name], hundredths(ratio));
    }
}

fn scan(pool: &str, scan: &Scan, now: u64, sink: &mut dyn Sink) {
    let kind = match scan.kind {
        ScanKind::Scrub => "scrub",
        ScanKind::Resilver => "resilver",
        ScanKind::ErrorScrub => "error_scrub",
    };
    let is_paused = scan.pause_time != 0;
    let state = match scan.state {
        RunState::Running if is_paused => "paused",
        RunState::Running => "running",
        RunState::Finished => "finished",
        RunState::Canceled => "canceled",
    };
    for word in ["running", "paused", "finished", "canceled"] {
        sink.number(&SCAN_STATE, &[pool, kind, word], u64::from(word == state));
    }
    for (measure, number) in [
        (&SCAN_TOTAL, scan.to_examine),
        (&SCAN_EXAMINED, scan.examined),
        (&SCAN_ISSUED, scan.issued),
        (&SCAN_REPAIRED, scan.processed),
        (&SCAN_ERRORS, scan.errors),
        (&SCAN_START, scan.start_time),
    ] {
        sink.number(measure, &[pool, kind], number);
    }
    if state == "running" {
        let seconds = now.saturating_sub(scan.pass_start);
        let seconds = seconds.saturating_sub(scan.paused_seconds).max(1);
        let rate = scan.pass_issued / seconds;
        sink.number(&SCAN_RATE, &[pool, kind], rate);
    }
    if scan.state != RunState::Running {
        sink.number(&SCAN_END, &[pool, kind], scan.end_time);
    }
}
