//! The labels of spares and cache devices, which belong to no transaction group (format/1a 4).

use cenote_ondisk::pool_config::PoolState;
use cenote_ondisk::{NvList, VdevConfig};
use std::os::unix::ffi::OsStrExt;

/// What the label of a spare or cache device says.
pub(crate) fn label_of(config: &VdevConfig, state: PoolState, version: u64) -> NvList {
    let mut list = NvList::new();
    list.set_u64("version", version);
    list.set_u64("state", state.number());
    list.set_u64("guid", config.guid.0);
    if state == PoolState::CacheDevice {
        list.set_u64("ashift", config.ashift.map_or(0, u64::from));
    }
    if let Some(path) = &config.path {
        list.set_str("path", path.as_os_str().as_bytes());
    }
    list
}
