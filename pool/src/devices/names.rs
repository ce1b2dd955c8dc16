//! Devices whose names lead to another device while they are in use.
//!
//! A job checks the names once a second, for idle pools; commits check for themselves. A stray
//! device gets no writes from then on (`cenote_vdev`). This module closes it if the pool can do
//! without it: the leaf counts as removed, a spare may replace it, and `zpool online` opens
//! whatever the name then leads to. Otherwise the device stays open for reading, and the pool is
//! suspended.
//!
//! Intent logs abandon lost log devices even while they are idle: an import without the device
//! cannot know that the next block of such a log was never written.

use super::change::{ChangeTree, Plan};
use crate::sync::{Actor, Syncer};
use cenote_base::VdevId;
use cenote_base::rt::job::{Control, Job, Next};
use cenote_vdev::{AllocationClass, Shape, VdevState};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Begins to look, as `job`.
///
/// # Errors
/// If no thread can be started.
pub(crate) fn watch_names(job: &Job, syncer: &Arc<Syncer>) -> std::io::Result<()> {
    let syncer = Arc::downgrade(syncer);
    let work = move |_: &Control| step(&syncer);
    job.start("device_names", work)
}

fn step(syncer: &Weak<Syncer>) -> Next {
    let Some(syncer) = syncer.upgrade() else {
        return Next::Done;
    };
    let shape = syncer.vdevs.shape();
    shape.look_at_names();
    let is_waiting = syncer.pipeline.suspension().cause().is_some();
    if is_waiting || syncer.gate.suspended().is_some() {
        return Next::After(INTERVAL);
    }
    leave_lost_logs(&syncer, &shape);
    if shape.to_close().is_empty() {
        return Next::After(INTERVAL);
    }
    let task = ChangeTree {
        syncer: Arc::clone(&syncer),
        actor: Actor::default(),
        command: String::new(),
        // The tree stays as it is: what strayed is closed with every change.
        planner: Some(Box::new(|root, _, _| Ok(Plan::new(root.clone())))),
        refusal: None,
    };
    // If it could not be closed it still gets no writes, and is checked again.
    let _ = syncer.run_task(task);
    Next::After(INTERVAL)
}

/// Intent logs abandon log vdevs that cannot be used. Later commits start them elsewhere.
fn leave_lost_logs(syncer: &Syncer, shape: &Shape) {
    let is_lost = |vdev| {
        let state = shape.top_state(vdev).map(|(state, _)| state);
        let is_readable = state.is_some_and(VdevState::is_readable);
        shape.class(vdev) == Some(AllocationClass::Log) && !is_readable
    };
    let tops = 0..shape.top_count() as u64;
    if !tops.map(VdevId).any(is_lost) {
        return;
    }
    let heads = syncer.dsl.open_heads();
    for writer in heads.iter().filter_map(|head| head.log()) {
        if writer.is_on(is_lost) {
            // A pool that takes no more changes keeps its logs for the next import.
            let _ = writer.end_chain();
        }
    }
}
