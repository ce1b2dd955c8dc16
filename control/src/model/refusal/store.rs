//! Why an object store, or a device in one, is not used or let go.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why writeback is for single devices.
const WHY: &str = "a pool of several devices would be of two ages if the local log were lost";

/// Why a store is not used or let go.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreRefusal {
    /// The pool has no device in a store.
    #[error("no device of this pool that is open is in an object store")]
    NoStore,
    /// Of a pool that is only read no device in a store is open.
    #[error("the pool is imported read-only: name the store, not the pool")]
    ReadOnlyPool,
    /// The device failed.
    #[error("{place}: {reason}")]
    Failed {
        /// The store.
        place: String,
        /// Why, in the device's words.
        reason: String,
    },
    /// The device failed, and its pool cannot be let go in order.
    #[error("{place}: {reason}\nuse -f to let it go as the store has it")]
    NotLetGo {
        /// The store.
        place: String,
        /// Why, in the device's words.
        reason: String,
    },
    /// The store still has this machine as its writer.
    #[error("not released, and what was not uploaded is in the local log: {reason}")]
    NotReleased {
        /// Why, in the device's words.
        reason: String,
    },
    /// What programs have written would be lost.
    #[error(
        "{pool}: {place} does not answer and the local log is full: what was not synced would be \
         lost"
    )]
    LogFull {
        /// The pool.
        pool: String,
        /// The store.
        place: String,
    },
    /// An import was asked to have writeback.
    #[error("{place}: no cache=writeback: {WHY}")]
    NoWriteback {
        /// The store.
        place: String,
    },
    /// Devices in stores hold data.
    #[error("{place}: a device in a store is neither spare nor cache")]
    NotAuxiliary {
        /// The store.
        place: String,
    },
    /// It would have writeback beside other devices.
    #[error("{place}: beside other devices it needs ?cache=writethrough: {WHY}")]
    NeedsWritethrough {
        /// The store.
        place: String,
    },
    /// It has writeback, and is to get a device beside it.
    #[error(
        "{place} is open with cache=writeback, which is for pools of one device: export the pool, \
         and import it with -d '{place}?cache=writethrough'"
    )]
    OpenWriteback {
        /// The store.
        place: String,
    },
    /// A store does not answer, or its name is none.
    #[error("{reason}")]
    Unreachable {
        /// Why, with the store's name.
        reason: String,
    },
}
