//! Reporting what devices did wrong.
//!
//! Each fault that a read meets is reported once, as it is met, to a [`FaultSink`]: an event log,
//! an administrator's daemon. Redundancy may have hidden it from the reader.

use cenote_base::{Bookmark, Guid, Txg};
use cenote_ondisk::Dva;
use std::fmt::Debug;

/// What was the matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultClass {
    /// A leaf gave other bytes than were written (`ereport.fs.zfs.checksum`).
    Checksum,
    /// A leaf did not give its part (`ereport.fs.zfs.io`).
    Io,
    /// No copy of the block is left, or it does not decompress (`ereport.fs.zfs.data`).
    Data,
    /// The block is not what was encrypted (`ereport.fs.zfs.authentication`).
    Authentication,
}

/// A fault in a block that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockFault {
    /// What was the matter.
    pub class: FaultClass,
    /// The leaf, unless it is the whole block.
    pub leaf: Option<Guid>,
    /// The copy's address; of a whole block the first copy's.
    pub dva: Dva,
    /// Stored bytes of the block.
    pub size: usize,
    /// When it was physically born.
    pub birth: Txg,
    /// The block's place.
    pub bookmark: Bookmark,
}

/// The receiver of faults.
///
/// It runs in threads that callers wait for, and must not read from the pool.
pub trait FaultSink: Debug + Send + Sync {
    /// Takes note of a fault.
    fn fault(&self, fault: &BlockFault);
}
