//! Finding blocks that are stored already (format/2c 4).
//!
//! The tables of stored blocks are objects of the pool, so the layer above keeps them. A block
//! that wants to be deduplicated is encoded like any other, ciphertext with parameters that
//! follow from its contents; then the table is asked for its checksum. What is known already
//! gets the addresses of the block that is there, and is not written.

use super::WriteRequest;
use super::encode::copies;
use super::place::Placer;
use super::pointer;
use crate::error::IoError;
use cenote_base::Txg;
use cenote_device::BlockBuffer;
use cenote_ondisk::wire::with_bits;
use cenote_ondisk::{BlockPointer, Dva};
use cenote_vdev::IoContext;
use std::sync::Arc;

/// What a table says of a block that is about to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicate {
    /// No such block is stored.
    None,
    /// It is stored here, since the txg.
    Stored {
        /// The addresses as a block pointer has them; the third may be something else.
        dvas: [Dva; 3],
        /// Its physical birth.
        birth: Txg,
    },
    /// It must be stored apart from what the table knows.
    Unsuitable,
}

/// Why a table cannot be asked.
pub type DedupError = Box<dyn std::error::Error + Send + Sync>;

/// The tables of deduplicated blocks. Called by one thread at a time for each call of a write.
pub trait DedupTable: std::fmt::Debug + Send + Sync {
    /// Looks for a block like this one, with so many copies.
    ///
    /// # Errors
    /// If the table cannot be read.
    fn find(&self, pointer: &BlockPointer, copies: usize) -> Result<Duplicate, DedupError>;

    /// Notes one reference more to this block, which has its addresses now.
    ///
    /// # Errors
    /// If the table cannot be read.
    fn refer(&self, pointer: &BlockPointer, copies: usize) -> Result<(), DedupError>;
}

/// The D flag among the properties.
const DEDUP_BIT: u32 = 62;

/// Whether a pointer says that its block stands in a table.
pub(super) fn clear_flag(pointer: &mut BlockPointer) {
    pointer.words[6] = with_bits(pointer.words[6], DEDUP_BIT, 1, 0);
}

impl Placer<'_> {
    fn table_error(request: &WriteRequest, source: DedupError) -> IoError {
        let bookmark = request.bookmark;
        IoError::DedupTable { bookmark, source }
    }

    /// The pointer to a block with the same contents that is stored already. Otherwise `pointer`
    /// becomes that of a new block, which the table may or may not record.
    pub(super) fn find_duplicate(
        &self,
        request: &WriteRequest,
        stored: &[u8],
        pointer: &mut BlockPointer,
    ) -> Result<Option<BlockPointer>, IoError> {
        let Some(table) = self.dedup.filter(|_| pointer.is_dedup()) else {
            return Ok(None);
        };
        let fail = |source| Self::table_error(request, source);
        let copies = copies(request, pointer);
        let (dvas, birth) = match table.find(pointer, copies).map_err(fail)? {
            Duplicate::None => return Ok(None),
            Duplicate::Stored { dvas, birth } => (dvas, birth),
            Duplicate::Unsuitable => {
                clear_flag(pointer);
                return Ok(None);
            }
        };
        let mut shared = *pointer;
        for (index, dva) in dvas.iter().enumerate() {
            (shared.words[2 * index], shared.words[2 * index + 1]) = (dva.word0, dva.word1);
        }
        pointer::set_physical_birth(&mut shared, birth);
        // The same contents in the same place of the file: nothing has changed.
        let is_same = |previous: &BlockPointer| {
            previous.is_dedup()
                && previous.dva(0) == shared.dva(0)
                && previous.physical_birth() == birth
                && previous.words[6] == shared.words[6]
        };
        if let Some(previous) = request.previous.filter(is_same) {
            return Ok(Some(previous));
        }
        let verify = request.policy.dedup.is_some_and(|dedup| dedup.verify);
        if verify && !self.holds(&shared, stored, request) {
            clear_flag(pointer);
            return Ok(None);
        }
        table.refer(&shared, copies).map_err(fail)?;
        Ok(Some(shared))
    }

    /// Whether these bytes are stored where `pointer` says.
    fn holds(&self, pointer: &BlockPointer, stored: &[u8], request: &WriteRequest) -> bool {
        if let Some(bytes) = self.fresh.borrow().get(&pointer.dva(0)) {
            return bytes[..] == *stored;
        }
        let read = self
            .pipeline
            .read_stored(pointer, request.bookmark, &IoContext::SYNCING);
        read.is_ok_and(|bytes| bytes[..] == *stored)
    }

    /// Tells the table of a block that was just given its addresses.
    pub(super) fn remember(
        &self,
        request: &WriteRequest,
        pointer: &BlockPointer,
        stored: Arc<BlockBuffer>,
    ) -> Result<(), IoError> {
        let Some(table) = self.dedup.filter(|_| pointer.is_dedup()) else {
            return Ok(());
        };
        if request.policy.dedup.is_some_and(|dedup| dedup.verify) {
            self.fresh.borrow_mut().insert(pointer.dva(0), stored);
        }
        let known = table.refer(pointer, copies(request, pointer));
        known.map_err(|source| Self::table_error(request, source))
    }
}
