//! Why an intent log cannot be read.

use cenote_base::ObjsetId;
use cenote_io::IoError;
use cenote_ondisk::DecodeError;

/// An intent log cannot be read. That a chain ends is no error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IntentLogError {
    /// The header in the object set block does not decode.
    #[error("intent log of object set {objset}: {source}")]
    Header {
        /// The object set.
        objset: ObjsetId,
        /// What is wrong.
        source: DecodeError,
    },
    /// The pointer to a log block makes no sense, although what holds it has a right checksum.
    #[error("intent log of object set {objset}, block {sequence}: {problem}")]
    BadPointer {
        /// The object set.
        objset: ObjsetId,
        /// The block's number in its chain.
        sequence: u64,
        /// What is wrong.
        problem: &'static str,
    },
    /// No device gives a block's bytes.
    #[error("intent log of object set {objset}, block {sequence}: {source}")]
    Unreadable {
        /// The object set.
        objset: ObjsetId,
        /// The block's number in its chain.
        sequence: u64,
        /// What reading met.
        source: IoError,
    },
    /// The next block of an unclaimed chain may be on a device that is missing.
    #[error(
        "intent log of object set {objset}: block {sequence} may be on a log device that is missing"
    )]
    Missing {
        /// The object set.
        objset: ObjsetId,
        /// The block's number in its chain.
        sequence: u64,
    },
    /// A record in a block with a right checksum does not decode.
    #[error("intent log of object set {objset}, block {sequence}: {source}")]
    BadRecord {
        /// The object set.
        objset: ObjsetId,
        /// The block's number in its chain.
        sequence: u64,
        /// What is wrong.
        source: DecodeError,
    },
    /// The records are encrypted and the key is not loaded.
    #[error("intent log of object set {objset} is encrypted and its key is not loaded")]
    KeyNotLoaded {
        /// The object set.
        objset: ObjsetId,
    },
    /// A block of a claimed chain is missing: synchronous writes are lost.
    #[error(
        "intent log of object set {objset} ends at block {sequence}, but blocks up to {claimed} \
         were claimed; 'zpool export' and 'zpool import -m' give up what only the rest holds"
    )]
    Short {
        /// The object set.
        objset: ObjsetId,
        /// The first block that is not valid.
        sequence: u64,
        /// The highest block that was claimed.
        claimed: u64,
    },
}
