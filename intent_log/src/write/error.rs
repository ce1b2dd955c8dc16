//! Why a log cannot be written.

use cenote_base::{ObjectId, ObjsetId};
use cenote_dmu::DmuError;
use cenote_io::IoError;

/// A log cannot be written; or, from a commit, neither can the transaction group.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogWriteError {
    /// A log block cannot be allocated or written.
    #[error("object set {objset}: its intent log cannot be written: {source}")]
    Block {
        /// The object set.
        objset: ObjsetId,
        /// What the devices or the allocator said.
        source: IoError,
    },
    /// The contents of a write cannot be read back.
    #[error("object set {objset}: a write to object {object} cannot be logged: {source}")]
    Data {
        /// The object set.
        objset: ObjsetId,
        /// The object that was written to.
        object: ObjectId,
        /// Why it cannot be read.
        source: DmuError,
    },
    /// A file was truncated before the contents of an earlier write could be logged.
    #[error("object set {objset}: object {object} was truncated while a write was logged")]
    Truncated {
        /// The object set.
        objset: ObjsetId,
        /// The object.
        object: ObjectId,
    },
    /// The pool takes no more changes.
    #[error("object set {objset}: {source}")]
    Group {
        /// The object set.
        objset: ObjsetId,
        /// Why the group is not written.
        source: DmuError,
    },
    /// The system gives no random bytes for a new chain.
    #[error("object set {objset}: no randomness for a new intent log: {source}")]
    Random {
        /// The object set.
        objset: ObjsetId,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The contents are more than the cipher takes.
    #[error("object set {objset}: a log block is too long to be encrypted")]
    TooLong {
        /// The object set.
        objset: ObjsetId,
    },
}
