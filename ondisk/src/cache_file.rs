//! Cache files (`zpool.cache`): which pools were imported, and where their devices were.
//!
//! A file is a packed list ([`NvList`]) of configurations by the names of their pools. OpenZFS and
//! several daemons may have pools in the same file, so a daemon's configurations have a mark, which
//! OpenZFS passes over.

use crate::{DecodeError, NvList, NvValue, PoolConfig};
use std::path::PathBuf;

/// Bytes of a cache file: thousands of devices.
pub const SIZE_MAX: u64 = 16 << 20;

/// The name of the mark in a configuration: the socket of the daemon that imported the pool.
pub const OWNER: &str = "cenote:socket";

/// A pool in a cache file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheEntry<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its guid.
    pub guid: u64,
    /// Where its devices were.
    pub devices: Vec<PathBuf>,
}

/// The paths of the devices of a pool with this configuration.
///
/// # Errors
/// It is no configuration.
pub fn devices(config: &NvList) -> Result<Vec<PathBuf>, DecodeError> {
    let config = PoolConfig::decode(config)?;
    let tree = config.vdev_tree.iter();
    let leaves = tree.flat_map(|tree| tree.leaves());
    Ok(leaves.filter_map(|leaf| leaf.path.clone()).collect())
}

/// The pools that the daemon of a socket imported.
///
/// # Errors
/// One of them has no configuration.
pub fn pools_of<'a>(list: &'a NvList, socket: &[u8]) -> Result<Vec<CacheEntry<'a>>, DecodeError> {
    let mut pools = Vec::new();
    for (name, value) in list.iter() {
        let NvValue::List(config) = value else {
            continue;
        };
        if config.get_bytes(OWNER) != Some(socket) {
            continue;
        }
        pools.push(CacheEntry {
            name,
            guid: config.get_u64("pool_guid").unwrap_or_default(),
            devices: devices(config)?,
        });
    }
    Ok(pools)
}
