//! Numbers of transaction groups that a pool's tables name.
//!
//! A table can only name groups up to its own. Writing the next group relies on that: if a metaslab
//! claimed to be flushed at a later group, the logs of all groups before that would be freed, among
//! them the log of the open group. So an import for writing refuses such a pool and names the
//! table.

use super::needed::needed;
use crate::error::ImportError;
use crate::space;
use cenote_base::{ObjectId, Txg};
use cenote_dmu::{DmuError, ObjectSet};
use cenote_ondisk::{DecodeError, VdevConfig, vdev_zap};
use cenote_vdev::Shape;
use std::sync::Arc;

/// Refuses tables of space that name a group after `last`, to which they belong.
pub(super) fn check_groups(
    mos: &Arc<ObjectSet>,
    vdevs: &Shape,
    root: &VdevConfig,
    last: Txg,
) -> Result<(), ImportError> {
    for top in &root.children {
        let id = top.id.unwrap_or_default();
        let what = format!("the table of unflushed metaslabs of top-level vdev {id}");
        needed(&what, check_unflushed(mos, vdevs, top, last))?;
    }
    needed("the list of space map logs", check_logs(mos, last))
}

fn check_unflushed(
    mos: &Arc<ObjectSet>,
    vdevs: &Shape,
    top: &VdevConfig,
    last: Txg,
) -> Result<(), DmuError> {
    let found = space::metaslabs(mos, vdevs, top)?;
    let later = found.and_then(|found| found.unflushed.into_iter().find(|txg| *txg > last.0));
    let (Some(value), Some(zap)) = (later, top.top_zap) else {
        return Ok(());
    };
    let table = mos.zap(zap)?.lookup_u64(vdev_zap::top::UNFLUSHED_TXGS)?;
    Err(too_late(mos, table.map_or(zap, ObjectId), value))
}

fn check_logs(mos: &Arc<ObjectSet>, last: Txg) -> Result<(), DmuError> {
    let logs = space::logs(mos)?;
    let later = logs.into_iter().find(|(txg, _)| *txg > last);
    later.map_or(Ok(()), |(txg, log)| Err(too_late(mos, log, txg.0)))
}

fn too_late(mos: &Arc<ObjectSet>, object: ObjectId, value: u64) -> DmuError {
    let source = DecodeError::BadValue {
        structure: "space map",
        field: "a transaction group after the pool's last one",
        value,
    };
    match mos.object(object) {
        Ok(object) => object.malformed(source),
        Err(error) => error,
    }
}
