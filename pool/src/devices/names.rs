//! Devices whose names lead to something else while they are in use.
//!
//! A job looks at the names once a second, for pools in which nothing happens; commits look for
//! themselves. What strayed takes no writes from then on (`cenote_vdev`). Here its device is
//! closed, if the pool can do without it: the leaf counts as removed, a spare may take its place,
//! and `zpool online` opens what the name leads to by then. What the pool cannot do without stays
//! open to be read, and the pool waits.

use super::change::{ChangeTree, Plan};
use crate::sync::{Actor, Syncer};
use cenote_base::rt::job::{Control, Job, Next};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Begins to look, as `job`.
///
/// # Errors
/// If there is no thread to be had.
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
    if shape.to_close().is_empty() || is_waiting || syncer.gate.suspended().is_some() {
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
    // What could not be closed takes no writes all the same, and is looked at again.
    let _ = syncer.run_task(task);
    Next::After(INTERVAL)
}
