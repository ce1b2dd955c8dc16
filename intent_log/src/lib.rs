//! The intent log: synchronous operations that may not have reached a transaction group.
//!
//! Each dataset has its own log: a chain of blocks, each of which names the next before that is
//! written. The chain ends at the first block that is not what its pointer promises, so a crash
//! needs no marker. [`IntentLog`] walks the chain and yields the records that count; what they
//! mean is for `posix` and `volume` to say, which repeat the operations on top of the state that
//! the last transaction group left.
//!
//! **Invariants**: a record is yielded only from a block whose checksum and place in the chain
//! are right, and, in an encrypted dataset, that is authentic. Walking takes one block of memory
//! and ends on any input, since the number of a block is part of what its checksum covers.
//!
//! Claiming is `pool`'s part, for it allocates. [`LogWriter`] writes logs.

#![forbid(unsafe_code)]

mod chain;
mod error;
mod log;
mod owned;
mod pointed;
mod write;

pub use cenote_ondisk::intent_log::IntentLogHeader;
pub use chain::{Chain, ChainBlock, PointingRecord, RecordHeader, RecordHeaders, is_log_block};
pub use error::IntentLogError;
pub use log::{IntentLog, LogSummary, ReplayWindow};
pub use owned::OwnedBlocks;
pub use pointed::read_pointed;
pub use write::{
    Aged, Commit, Committed, HeadSpace, LogData, LogFigures, LogHold, LogParams, LogSpace, LogSync,
    LogWriteError, LogWriter,
};
