//! What the write path of one pool knows.

use super::Allocator;
use crate::workers::Workers;
use cenote_base::{Env, RealEnv};
use std::sync::{Arc, OnceLock};

/// The parts of a pipeline that only writing needs; all are set at most once.
#[derive(Debug, Default)]
pub(crate) struct WriteState {
    pub(crate) allocator: OnceLock<Arc<dyn Allocator>>,
    env: OnceLock<Arc<dyn Env>>,
    workers: OnceLock<Workers>,
}

impl WriteState {
    /// Uses `env` for randomness; a second call changes nothing.
    pub(crate) fn set_env(&self, env: Arc<dyn Env>) {
        let _ = self.env.set(env);
    }

    /// Where salts and initialization vectors come from.
    pub(crate) fn env(&self) -> &Arc<dyn Env> {
        self.env.get_or_init(|| Arc::new(RealEnv::new()))
    }

    /// The threads that encode blocks, started by the first write.
    pub(crate) fn workers(&self) -> &Workers {
        self.workers.get_or_init(|| {
            let cores = std::thread::available_parallelism();
            Workers::new(cores.map_or(2, std::num::NonZero::get))
        })
    }
}
