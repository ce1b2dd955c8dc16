//! What the write path of one pool knows.

use super::pending::Pending;
use super::random::RandomPool;
use super::squeeze::Hints;
use super::unflushed::Unflushed;
use super::{Allocator, DedupTable};
use crate::suspension::Suspension;
use crate::workers::Workers;
use cenote_base::rt;
use cenote_base::{Env, RealEnv};
use std::sync::{Arc, OnceLock};

/// Requests that are with devices at once, at most.
const WRITERS: usize = 16;

/// The parts of a pipeline that only writing needs; all are set at most once.
#[derive(Debug, Default)]
pub(crate) struct WriteState {
    pub(crate) allocator: OnceLock<Arc<dyn Allocator>>,
    pub(crate) dedup: OnceLock<Arc<dyn DedupTable>>,
    pub(crate) hints: Hints,
    /// Metadata on its way.
    pub(crate) pending: Pending,
    /// What devices took since they were flushed.
    pub(crate) unflushed: Unflushed,
    /// Where work waits for devices that are gone.
    pub(crate) suspension: Arc<Suspension>,
    env: OnceLock<Arc<dyn Env>>,
    random: RandomPool,
    encoders: OnceLock<Workers>,
    writers: OnceLock<Workers>,
}

impl WriteState {
    /// Uses `env` for randomness; a second call changes nothing.
    pub(crate) fn set_env(&self, env: Arc<dyn Env>) {
        let _ = self.env.set(env);
    }

    fn env(&self) -> &dyn Env {
        self.env.get_or_init(|| Arc::new(RealEnv::new())).as_ref()
    }

    /// Bytes for an initialization vector and, behind them, for a salt.
    pub(crate) fn random(&self) -> std::io::Result<[u8; 20]> {
        self.random.take(self.env())
    }

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
