//! What opening a tree of vdevs takes beside the configuration and the devices.

use crate::state::VdevAux;
use cenote_base::{Env, Guid, RealEnv};
use cenote_ondisk::uberblock::RaidzReflow;
use std::collections::HashMap;
use std::sync::Arc;

/// What opening needs to know beside configuration and devices.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Progress of a raidz expansion, from the uberblock.
    pub reflow: Option<RaidzReflow>,
    /// Why leaves cannot be used although their device was found.
    pub problems: HashMap<Guid, VdevAux>,
    /// Whose clock tells how long requests take.
    pub env: Arc<dyn Env>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            reflow: None,
            problems: HashMap::new(),
            env: Arc::new(RealEnv::new()),
        }
    }
}
