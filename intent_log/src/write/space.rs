//! What a log writer needs of its pool, and of the objects that are logged.

use cenote_base::{ObjectId, Txg};
use cenote_device::BlockBuffer;
use cenote_dmu::DmuError;
use cenote_io::{IoError, LogMark, ObjsetKeys};
use cenote_ondisk::BlockPointer;
use std::fmt::Debug;
use std::sync::Arc;

/// A pool, as a log writer sees it.
pub trait LogSpace: Debug + Send + Sync {
    /// Keeps the open group from being synced until the result is dropped. The head counts as
    /// changed in that group, so that its header is written with it.
    ///
    /// # Errors
    /// If the pool takes no more changes.
    fn hold(&self) -> Result<Box<dyn LogHold + '_>, DmuError>;

    /// Writes blocks and waits until the devices took them; what is behind a block's covered part
    /// may be left out.
    ///
    /// # Errors
    /// If too few devices took one of them. This does not wait for devices that are gone.
    fn write(&self, blocks: Vec<(BlockPointer, Arc<BlockBuffer>)>) -> Result<LogMark, IoError>;

    /// Makes durable what was written since the mark, the mark's blocks included.
    ///
    /// # Errors
    /// If any of it may be lost.
    fn flush(&self, mark: &LogMark) -> Result<(), IoError>;

    /// The last group that is on disk.
    fn durable_txg(&self) -> Txg;

    /// Waits until a group is on disk, and has it written soon.
    ///
    /// # Errors
    /// If it will not be.
    fn wait_durable(&self, txg: Txg) -> Result<(), DmuError>;

    /// Two random words that name a new chain.
    ///
    /// # Errors
    /// If there is no randomness.
    fn random_guid(&self) -> std::io::Result<[u64; 2]>;
}

/// A group that is kept open.
pub trait LogHold: Debug {
    /// The group.
    fn txg(&self) -> Txg;

    /// Takes space for one block and makes its pointer, with the verifier in it, and salt and
    /// initialization vector if there are keys.
    ///
    /// # Errors
    /// If there is no space in one piece.
    fn allocate(
        &self,
        size: u64,
        verifier: [u64; 4],
        keys: Option<&ObjsetKeys>,
    ) -> Result<BlockPointer, IoError>;
}

/// The objects that are logged.
pub trait LogData: Debug + Send + Sync {
    /// The bytes of a write as they are by now; later writes may have changed them, and have
    /// records of their own. `None` if the object is gone or ends before `offset`; fewer bytes if
    /// it ends before `offset + length`.
    ///
    /// # Errors
    /// If the bytes cannot be read.
    fn read(&self, object: ObjectId, offset: u64, length: u64)
    -> Result<Option<Vec<u8>>, DmuError>;

    /// As [`Self::read`], without waiting for others. Returns `None` also if the object is being
    /// changed, or if it cannot be read.
    fn read_if_free(&self, object: ObjectId, offset: u64, length: u64) -> Option<Vec<u8>> {
        self.read(object, offset, length).ok().flatten()
    }
}
