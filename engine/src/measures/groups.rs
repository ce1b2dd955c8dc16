//! Figures of transaction groups and intent logs.

use super::table::{
    LOG_BLOCKS, LOG_BYTES, LOG_COMMITS, LOG_FAILURES, LOG_FLUSHES, TXG_DELAY_SECONDS, TXG_DELAYS,
    TXG_DIRTY, TXG_DIRTY_MAX, TXG_FULL, TXG_LAST_SYNC, TXG_TRANSACTIONS,
};
use crate::registry::imported::Imported;
use crate::registry::table::Registry;
use cenote_base::metrics::{Sample, Sink};
use cenote_control::model::{ControlError, GroupRow, Response};
use cenote_dmu::{GroupFigures, GroupState};
use std::time::Duration;

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The transaction groups of a pool that is written to.
pub(super) fn groups(imported: &Imported, sink: &mut dyn Sink) {
    let pool = imported.name();
    let Ok(gate) = imported.pool.gate() else {
        return;
    };
    let figures = gate.figures();
    sink.number(&TXG_DIRTY, &[pool], gate.dirty_bytes());
    sink.number(&TXG_DIRTY_MAX, &[pool], gate.limits().dirty_bytes_max);
    sink.number(&TXG_TRANSACTIONS, &[pool], figures.assigned);
    sink.number(&TXG_DELAYS, &[pool], figures.delayed);
    let delayed = Sample::Billionths(figures.delayed_ns);
    sink.put(&TXG_DELAY_SECONDS, &[pool], delayed);
    sink.number(&TXG_FULL, &[pool], figures.full);
    let groups = gate.groups();
    let mut committed = groups.iter().rev();
    if let Some(last) = committed.find(|group| group.state == GroupState::Committed) {
        let took = Sample::Billionths(nanoseconds(last.sync));
        sink.put(&TXG_LAST_SYNC, &[pool], took);
    }
}

/// The intent logs of the heads that are open.
pub(super) fn logs(imported: &Imported, sink: &mut dyn Sink) {
    let (pool, dsl) = (imported.name(), imported.dsl());
    for head in dsl.open_heads() {
        let (Some(log), Ok(directory)) = (head.log(), dsl.directory_of(head.directory())) else {
            continue;
        };
        let name = directory.name().to_string();
        let labels = [pool, name.as_str()];
        let figures = log.figures();
        for (by, commits) in [("log", figures.commits), ("group", figures.by_group)] {
            sink.number(&LOG_COMMITS, &[pool, &name, by], commits);
        }
        sink.number(&LOG_BLOCKS, &labels, figures.blocks);
        sink.number(&LOG_BYTES, &labels, figures.bytes);
        sink.number(&LOG_FLUSHES, &labels, figures.flushes);
        sink.number(&LOG_FAILURES, &labels, figures.failures);
    }
}

/// The last groups of a pool; none of one that is only read.
pub(crate) fn pool_groups(registry: &Registry, pool: &str) -> Result<Response, ControlError> {
    let imported = registry.pool(pool)?;
    let groups = imported.pool.gate().map(|gate| gate.groups());
    let groups = groups.unwrap_or_default();
    Ok(Response::Groups {
        groups: groups.iter().map(row).collect(),
    })
}

fn row(group: &GroupFigures) -> GroupRow {
    let state = match group.state {
        GroupState::Open => "O",
        GroupState::Quiescing => "Q",
        GroupState::Syncing => "S",
        GroupState::Committed => "C",
    };
    GroupRow {
        txg: group.txg.0,
        state: state.to_owned(),
        opened: nanoseconds(group.opened),
        dirty: group.dirty,
        read_bytes: group.io.read_bytes,
        written_bytes: group.io.written_bytes,
        reads: group.io.reads,
        writes: group.io.writes,
        open: nanoseconds(group.open),
        quiesce: nanoseconds(group.quiesce),
        sync: nanoseconds(group.sync),
    }
}
