//! What all folders share: the pools, and what this daemon publishes of them.

use crate::disks::table::LocalDisks;
use crate::servers::Servers;
use crate::sites;
use crate::volumes::table::VolumeServers;
use cenote_engine::Registry;
use std::sync::Arc;

/// The shared parts.
pub(crate) struct Context {
    /// The imported pools.
    pub registry: Arc<Registry>,
    /// Servers of volumes.
    pub volumes: VolumeServers,
    /// Volumes as disks of this machine.
    pub disks: LocalDisks,
    /// Servers of sites.
    pub sites: Servers<sites::table::Running>,
}
