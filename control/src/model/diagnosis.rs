//! What is wrong with single devices of a pool.

use serde::{Deserialize, Serialize};

/// What is wrong with one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// No device with this guid was found.
    NotFound,
    /// It cannot be opened.
    Unreadable {
        /// The system's reason.
        reason: String,
    },
    /// Some of the four labels do not verify.
    Labels {
        /// Labels that are good, as bits 0..=3.
        good: u8,
    },
    /// It is in its place and no label of it verifies.
    NoLabel,
    /// It belongs to another pool now.
    OtherPool {
        /// That pool's name.
        pool: String,
    },
    /// It bears the guid of the vdev, and is not used.
    NotUsed {
        /// Why, and what to do.
        reason: String,
    },
    /// It cannot be opened for writing, and the pool is used without it.
    NotWritable {
        /// The system's reason.
        reason: String,
    },
    /// It is smaller than devices of pools are.
    TooSmall {
        /// Bytes that it should have.
        expected: u64,
        /// Bytes that it has.
        found: u64,
    },
}

/// One finding about one vdev of a pool that can be imported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// Where in the tree: `raidz1-0/1`.
    pub vdev: String,
    /// Its guid.
    pub guid: u64,
    /// The path where it was last known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_path: Option<String>,
    /// The device where it was found now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_path: Option<String>,
    /// What is wrong.
    pub fault: Fault,
}
