//! The jobs of the rebuilds of a pool.

use cenote_base::VdevId;
use cenote_base::rt::{Job, Mutex, ranks};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The rebuilds of a pool.
#[derive(Debug, Default)]
pub(crate) struct Rebuilds {
    jobs: Mutex<State, ranks::Rebuilds>,
}

#[derive(Debug, Default)]
struct State {
    jobs: BTreeMap<VdevId, Arc<Job>>,
    is_closed: bool,
}

impl Rebuilds {
    /// The rebuild of a top-level vdev; none once the pool is being let go.
    pub fn job(&self, vdev: VdevId) -> Option<Arc<Job>> {
        let mut state = self.jobs.lock();
        let is_open = !state.is_closed;
        is_open.then(|| Arc::clone(state.jobs.entry(vdev).or_default()))
    }

    /// Stops all where they are; what the disk says stays.
    pub fn stop(&self) {
        let jobs = {
            let mut state = self.jobs.lock();
            state.is_closed = true;
            std::mem::take(&mut state.jobs)
        };
        jobs.values().for_each(|job| job.cancel());
        jobs.values().for_each(|job| job.close());
    }
}
