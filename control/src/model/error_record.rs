//! What went wrong with a pool's devices, and when.

use serde::{Deserialize, Serialize};

use super::vdev::VdevState;

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum ErrorKind {
    /// A device made errors.
    Errors {
        /// Failed reads.
        read: u64,
        /// Failed writes.
        write: u64,
        /// Blocks that did not match their checksum.
        checksum: u64,
    },
    /// A device came into another state.
    State {
        /// Which.
        state: VdevState,
    },
    /// Data that could not be repaired.
    Data {
        /// Reads that failed, of a storm only some.
        reads: u64,
    },
    /// The pool took no more changes.
    Suspended,
}

/// Something that went wrong once, or several times within an hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorRecord {
    /// When first, in seconds.
    pub first: u64,
    /// And last.
    pub last: u64,
    /// The device's path or name; empty for the pool.
    pub device: String,
    /// The device; 0 for the pool.
    pub guid: u64,
    /// What.
    #[serde(flatten)]
    pub kind: ErrorKind,
}
