//! What is on its way to the devices of one pool.

use super::pending::Pending;
use super::unflushed::Unflushed;
use crate::suspension::Suspension;
use crate::workers::Workers;
use cenote_base::rt;
use std::sync::{Arc, OnceLock};

/// Requests that are with devices at once, at most.
const WRITERS: usize = 16;

/// Writes on their way, and the threads that send them.
#[derive(Debug, Default)]
pub(crate) struct WriteState {
    /// Metadata on its way.
    pub(crate) pending: Pending,
    /// What devices took since they were flushed.
    pub(crate) unflushed: Unflushed,
    /// Where work waits for devices that are gone.
    pub(crate) suspension: Arc<Suspension>,
    encoders: OnceLock<Workers>,
    writers: OnceLock<Workers>,
}

impl WriteState {
    /// The threads that encode blocks, started by the first write of many.
    pub(crate) fn encoders(&self) -> &Workers {
        self.encoders.get_or_init(|| {
            let cores = rt::available_parallelism();
            // The asker works too.
            Workers::new(cores.map_or(2, std::num::NonZero::get).max(2) - 1)
        })
    }

    /// The threads that wait for devices, started by the first write of many.
    pub(crate) fn writers(&self) -> &Workers {
        self.writers.get_or_init(|| Workers::new(WRITERS))
    }
}
