//! Why a fault is not injected.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a fault is not injected.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InjectRefusal {
    /// Only root may.
    #[error("only root may inject faults")]
    NotRoot,
    /// No fault has this number.
    #[error("no fault has the number {id}")]
    NoSuchFault {
        /// The number.
        id: u64,
    },
    /// The vdev has devices below it.
    #[error("'{device}' is a group of devices: faults are injected into its devices")]
    Group {
        /// The vdev.
        device: String,
    },
    /// The error makes no sense for this.
    #[error("the error cannot be injected into blocks: use io, checksum, decompress or decrypt")]
    NotForBlocks,
    /// The file has no such block or byte.
    #[error("object {object} cannot be read: {reason}")]
    NoObject {
        /// The object.
        object: u64,
        /// Why.
        reason: String,
    },
    /// There are too many.
    #[error("more than {limit} faults are injected already; end some with 'zinject -c'")]
    TooMany {
        /// The limit.
        limit: u64,
    },
    /// A device with these lanes is none.
    #[error("a delay takes at least 1 ms and at most 1 hour, and has 1 to 1000 lanes")]
    BadDelay,
    /// A pause is too long.
    #[error("an import or export can be delayed by 1 to 86400 seconds")]
    BadPause,
}
