//! How a device is, as plain data.

use crate::core::Core;
use crate::format::{CommitNumber, Uuid};
use crate::locks::lock;
use crate::store::StoreHealth;
use std::time::Duration;

/// How a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Which device.
    pub uuid: Uuid,
    /// Its size in bytes.
    pub size: u64,
    /// The newest commit.
    pub commit: CommitNumber,
    /// Whether the newest commit ends at a flush.
    pub is_at_flush: bool,
    /// Whether the device is released.
    pub is_released: bool,
    /// Bytes of writes that are not in the store yet.
    pub pending_bytes: u64,
    /// How long the oldest change that is not in the store has waited.
    pub pending_age: Option<Duration>,
    /// Bytes of the log that are in use, and all.
    pub log: Option<(u64, u64)>,
    /// How the connection is.
    pub store: StoreHealth,
    /// Why the device cannot be changed any more.
    pub failure: Option<String>,
}

impl Core {
    pub(crate) fn status(&self) -> Status {
        let log = lock(&self.order)
            .log
            .as_ref()
            .map(|log| (log.used(), log.capacity()));
        let now = self.now();
        let state = self.state();
        Status {
            uuid: self.identity.uuid,
            size: state.tip.size,
            commit: state.tip.number,
            is_at_flush: state.tip.ends_flush,
            is_released: state.tip.is_released,
            pending_bytes: state.queue.bytes(),
            pending_age: state
                .queue
                .oldest()
                .map(|oldest| now.saturating_sub(oldest)),
            log,
            store: self.client.statistics().health(),
            failure: state.failure.as_ref().map(ToString::to_string),
        }
    }
}
