//! Why a block cannot be read or written.

use crate::write::{DedupError, NoSpace};
use cenote_base::{Bookmark, MemoryExceeded};
use cenote_codec::compress::DecompressError;
use cenote_ondisk::{BlockPointer, DecodeError};
use cenote_vdev::VdevError;

/// A block cannot be read or written; every variant names the block.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IoError {
    /// The pointer to the block makes no sense.
    #[error("block {bookmark}: its block pointer is damaged: {source}")]
    BadPointer {
        /// The block.
        bookmark: Bookmark,
        /// What is wrong with the pointer.
        source: DecodeError,
    },
    /// The block was left out of a redacted receive.
    #[error("block {bookmark} was redacted when the dataset was received")]
    Redacted {
        /// The block.
        bookmark: Bookmark,
    },
    /// No copy of the block could be read with a right checksum.
    #[error("block {bookmark}: no good copy on any device ({pointer}): {source}")]
    Unreadable {
        /// The block.
        bookmark: Bookmark,
        /// Where it should be.
        pointer: Box<BlockPointer>,
        /// What the last copy tried met.
        source: VdevError,
    },
    /// No device took the bytes of a block that was to be restored.
    #[error("block {bookmark} could not be written again")]
    NotRestored {
        /// The block.
        bookmark: Bookmark,
    },
    /// A gang block's parts do not add up to it.
    #[error("block {bookmark}: gang block ({pointer}): {problem}")]
    BadGang {
        /// The block.
        bookmark: Bookmark,
        /// The gang leader.
        pointer: Box<BlockPointer>,
        /// What does not add up.
        problem: &'static str,
    },
    /// The checksum function needs the pool's salt, which is not known.
    #[error("block {bookmark}: its checksum needs the pool's salt, which could not be read")]
    NoSalt {
        /// The block.
        bookmark: Bookmark,
    },
    /// The stored bytes have the right checksum but do not decompress.
    #[error("block {bookmark} ({pointer}): {source}")]
    Decompress {
        /// The block.
        bookmark: Bookmark,
        /// How it is stored.
        pointer: Box<BlockPointer>,
        /// What the decoder met.
        source: DecompressError,
    },
    /// The block is encrypted and its dataset's key is not loaded.
    #[error("block {bookmark} is encrypted and its key is not loaded")]
    KeyNotLoaded {
        /// The block.
        bookmark: Bookmark,
    },
    /// The block has the right checksum but a wrong MAC: it was tampered with, or the key is
    /// not the one it was written with.
    #[error("block {bookmark}: authentication failed")]
    Authentication {
        /// The block.
        bookmark: Bookmark,
    },
    /// A protected block's contents do not have the structure needed to authenticate them.
    #[error("block {bookmark}: cannot be authenticated: {source}")]
    MalformedProtected {
        /// The block.
        bookmark: Bookmark,
        /// What is wrong with the contents.
        source: DecodeError,
    },
    /// There is no space for the block.
    #[error("block {bookmark}: {source}")]
    NoSpace {
        /// The block.
        bookmark: Bookmark,
        /// What the allocator said.
        source: NoSpace,
    },
    /// The block cannot be stored as wanted.
    #[error("block {bookmark} cannot be written: {problem}")]
    BadRequest {
        /// The block.
        bookmark: Bookmark,
        /// What is wrong with the request.
        problem: &'static str,
    },
    /// The system gives no random bytes to encrypt the block with.
    #[error("block {bookmark} cannot be encrypted: no randomness: {source}")]
    Random {
        /// The block.
        bookmark: Bookmark,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The tables of deduplicated blocks cannot be read.
    #[error("block {bookmark} cannot be deduplicated: {source}")]
    DedupTable {
        /// The block.
        bookmark: Bookmark,
        /// What the table met.
        source: DedupError,
    },
    /// Too few devices took the block for it to be safe.
    #[error("block {bookmark} cannot be written: {source}")]
    Unwritable {
        /// The block.
        bookmark: Bookmark,
        /// What the devices did.
        source: VdevError,
    },
    /// A device was exchanged before the block was durable.
    #[error("block {bookmark} may be lost: a device went away and came back before the flush")]
    Exchanged {
        /// The block.
        bookmark: Bookmark,
    },
    /// The read would take more memory than allowed.
    #[error("block {bookmark}: {source}")]
    Memory {
        /// The block.
        bookmark: Bookmark,
        /// The budget's state.
        source: MemoryExceeded,
    },
}

impl IoError {
    /// Whether the data itself is damaged, so that it counts as a data error of the pool.
    pub fn is_damage(&self) -> bool {
        !matches!(
            self,
            Self::Redacted { .. }
                | Self::KeyNotLoaded { .. }
                | Self::Memory { .. }
                | Self::NoSpace { .. }
                | Self::BadRequest { .. }
                | Self::Random { .. }
                | Self::DedupTable { .. }
                | Self::Unwritable { .. }
                | Self::Exchanged { .. }
        )
    }
}
