//! The labels of spares and cache devices, which belong to no transaction group (format/1a 4).
//!
//! The label of a spare that waits names no pool, so several pools can list the same device by its
//! guid. The pool that takes it writes its own labels there, and those of a waiting spare again
//! when it gives the device back. If that pool went down in between, some of the labels are of one
//! kind and some of the other. Then the device counts as taken: the pool may need it. A pool that
//! is destroyed needs its devices no more, so a spare that it used is free for the others.

use cenote_base::Guid;
use cenote_ondisk::pool_config::PoolState;
use cenote_ondisk::{NvList, PoolConfig, VdevConfig};
use cenote_vdev::DeviceLabels;
use std::os::unix::ffi::OsStrExt;

/// A pool in which a spare replaces a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpareUser {
    /// The pool's guid.
    pub pool: Guid,
    /// Its name.
    pub name: String,
}

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

/// What the valid labels of a device say.
fn valid_configs(labels: &DeviceLabels) -> impl Iterator<Item = &PoolConfig> {
    let valid = labels.labels.iter().filter(|label| label.is_valid());
    valid.filter_map(|label| label.config.as_ref())
}

/// Whether a label is that of a spare that no pool uses.
pub(crate) fn is_free_spare(config: &PoolConfig) -> bool {
    match config.state {
        PoolState::Spare => true,
        PoolState::Destroyed => config.is_spare,
        _ => false,
    }
}

/// The guid of a spare that waits to be used, by its labels.
pub fn waiting_spare(labels: &DeviceLabels) -> Option<Guid> {
    let label = labels.newest_config().filter(|label| label.is_valid())?;
    let config = label.config.as_ref()?;
    let guid = config.guid.filter(|guid| *guid != Guid(0))?;
    (is_free_spare(config) && user_of_spare(labels).is_none()).then_some(guid)
}

/// Whether all labels of a device say that it is this spare, and waits.
pub(crate) fn is_wholly_spare(labels: &DeviceLabels, guid: Guid) -> bool {
    let mut own = valid_configs(labels);
    let is_own =
        |config: &PoolConfig| config.state == PoolState::Spare && config.guid == Some(guid);
    own.all(is_own) && labels.labels.iter().all(|label| label.is_valid())
}

/// The pool that uses a spare, by the spare's labels.
pub fn user_of_spare(labels: &DeviceLabels) -> Option<SpareUser> {
    let is_user = |config: &&PoolConfig| {
        config.is_spare && matches!(config.state, PoolState::Active | PoolState::Exported)
    };
    let mut users = valid_configs(labels).filter(is_user);
    users.find_map(|config| {
        let pool = config.pool_guid?;
        Some(SpareUser {
            pool,
            name: config.name.clone().unwrap_or_else(|| pool.to_string()),
        })
    })
}
