//! How a device is, as plain data.

use crate::core::Core;
use crate::format::{CommitNumber, Uuid};
use crate::kept::Loss;
use crate::store::{AwaitedObject, DamagedObject, StoreHealth};
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
    /// The newest transaction group that the newest commit has as a whole; `None` if none is known.
    pub group: Option<u64>,
    /// Whether the newest commit ends at a flush.
    pub is_at_flush: bool,
    /// Whether the device is released.
    pub is_released: bool,
    /// The host of the newest commit's writer.
    pub host: String,
    /// When the newest commit was made, in seconds since 1970 by its writer's clock.
    pub written: u64,
    /// Whether it was opened for reading only, as of that commit.
    pub is_read_only: bool,
    /// Whether flushes wait for the store.
    pub is_writethrough: bool,
    /// Bytes of writes that are not in the store yet.
    pub pending_bytes: u64,
    /// How long the oldest change that is not in the store has waited.
    pub pending_age: Option<Duration>,
    /// Bytes of the log that are in use, and all.
    pub log: Option<(u64, u64)>,
    /// How the connection is.
    pub store: StoreHealth,
    /// How long nothing has come through; `None` while the store answers.
    pub unreachable_for: Option<Duration>,
    /// The object whose request is tried again and again for longest, and for how long.
    pub awaited: Option<(AwaitedObject, Duration)>,
    /// Why the device cannot be changed any more.
    pub failure: Option<String>,
    /// The first objects that were found damaged since the device was opened.
    pub damaged: Vec<DamagedObject>,
    /// How many there are.
    pub damaged_count: u64,
    /// What the store was found to have lost since the last verification that found all of it.
    pub loss: Option<Loss>,
}

impl Core {
    pub(crate) fn status(&self) -> Status {
        let log = self
            .order
            .lock()
            .log
            .as_ref()
            .map(|log| (log.used(), log.capacity()));
        let has_lost_log = self.has_lost_log();
        let now = self.now();
        let store = self.client.statistics().health();
        let awaited = self.client.statistics().longest_awaited();
        let (damaged, damaged_count) = self.client.damaged();
        let state = self.state();
        Status {
            uuid: self.identity.uuid,
            size: state.tip.size,
            commit: state.tip.number,
            group: state.tip.is_txg_complete.then_some(state.tip.txg),
            is_at_flush: state.tip.ends_flush,
            is_released: state.tip.is_released,
            host: state.tip.host.clone(),
            written: state.tip.written,
            is_read_only: self.options.is_read_only,
            is_writethrough: self.is_writethrough() || has_lost_log,
            pending_bytes: state.queue.bytes(),
            pending_age: state
                .queue
                .oldest()
                .map(|oldest| now.saturating_sub(oldest)),
            log,
            unreachable_for: store.failing_since.map(|since| now.saturating_sub(since)),
            store,
            awaited: awaited.map(|object| {
                let waited = now.saturating_sub(object.since);
                (object, waited)
            }),
            failure: state.failure.as_ref().map(ToString::to_string),
            damaged,
            damaged_count,
            loss: state.loss.clone(),
        }
    }
}
