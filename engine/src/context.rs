//! What all parts of the engine share: pools, events, memory, the environment.
//!
//! The folders build on it: their functions get all of it, or the parts that they need, as
//! arguments. The table of mounts is not here: [`Engine`](crate::Engine) has it.

use crate::clouds::table::Clouds;
use crate::events::Events;
use crate::publishing::Publisher;
use crate::registry::arriving::Arriving;
use crate::registry::memory::Memory;
use crate::registry::table::Registry;
use cenote_base::{Env, metrics};
use cenote_drills::Injections;
use std::sync::Arc;

/// The shared parts.
pub(crate) struct Context {
    /// The imported pools.
    pub registry: Arc<Registry>,
    /// The open devices in object stores.
    pub clouds: Arc<Clouds>,
    /// What happened to them.
    pub events: Arc<Events>,
    /// Memory, divided among them.
    pub memory: Memory,
    /// Publishes volumes and file systems in addition to mounts.
    pub publisher: Arc<dyn Publisher>,
    /// Parts outside of the engine that have figures.
    pub measured: Arc<metrics::Registry>,
    /// Names of those that are to come.
    pub arriving: Arriving,
    /// Faults made on purpose in them.
    pub injections: Injections,
    /// Clock and randomness.
    pub env: Arc<dyn Env>,
}

impl Context {
    /// A random number; 0 when the system has none to give.
    pub fn random(&self) -> u64 {
        let mut bytes = [0; 8];
        match self.env.fill_random(&mut bytes) {
            Ok(()) => u64::from_le_bytes(bytes),
            Err(_) => 0,
        }
    }

    /// Divides memory again after pools were imported, created or exported.
    pub fn divide_memory(&self) {
        self.memory.divide(&self.registry.all());
    }
}
