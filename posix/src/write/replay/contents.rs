//! Records that change contents: write, clone, truncate.
//!
//! A write record whose data is beside it points to a whole block of the file, of which the write
//! was a part. All of the block is written, as a later record may only say that the file grew over
//! the rest (format/2e 3). After the last record, everything behind the end of the file is cleared.

use super::LogReplay;
use crate::error::PosixError;
use crate::kind::FileKind;
use crate::write::change::Change;
use crate::write::data::{free_to_end, modified};
use crate::znode::Znode;
use cenote_base::{BlockId, ObjectId};
use cenote_dmu::clone_of;
use cenote_intent_log::read_pointed;
use cenote_ondisk::BlockPointer;
use cenote_ondisk::block_pointer::BLOCK_POINTER_SIZE;
use cenote_ondisk::intent_log::record::WriteData;
use cenote_ondisk::system_attributes::Attribute;
use std::sync::Arc;

/// The largest size of a file.
const SIZE_MAX: u64 = i64::MAX as u64;
/// The most bytes written in one transaction.
const CHUNK: usize = 4 << 20;

/// A stretch of contents to put somewhere.
#[derive(Clone, Copy)]
struct Stretch {
    offset: u64,
    length: u64,
    /// The file reaches at least to there afterwards.
    file_end: u64,
}

impl LogReplay<'_> {
    fn regular(&self, object: ObjectId) -> Result<Arc<Znode>, PosixError> {
        let file = self.files.znode(object)?;
        match file.kind() {
            FileKind::Regular => Ok(file),
            _ => Err(self.bad("contents of an object that is not a regular file change")),
        }
    }

    /// The end of a range, within what a file can hold.
    fn end_of(&self, offset: u64, length: u64) -> Result<u64, PosixError> {
        let end = offset.checked_add(length).filter(|end| *end <= SIZE_MAX);
        end.ok_or_else(|| self.bad("a range reaches beyond 2^63"))
    }

    /// Bytes that a change may make dirty at the edges of a range.
    pub(super) fn edge_cost(&self) -> Result<u64, PosixError> {
        Ok(2 * self.files.write_settings()?.record_size)
    }

    /// Types 9 and 20.
    pub(super) fn write(
        &self,
        object: ObjectId,
        offset: u64,
        length: u64,
        data: &WriteData<'_>,
    ) -> Result<(), PosixError> {
        self.regular(object)?;
        let stretch = Stretch {
            offset,
            length,
            file_end: self.end_of(offset, length)?,
        };
        match data {
            WriteData::SizeOnly => self.put(object, stretch, Some(&[]))?,
            WriteData::Immediate(bytes) => self.put(object, stretch, Some(bytes))?,
            WriteData::Indirect(pointer) => {
                let block_size = pointer.logical_size();
                let stretch = match length < block_size {
                    true => Stretch {
                        offset: offset - offset % block_size,
                        length: block_size,
                        ..stretch
                    },
                    false => stretch,
                };
                self.put_block(object, stretch, pointer)?;
            }
        }
        self.note(&self.begin(0)?)
    }

    /// Puts a block of the pool, from its start, into a file.
    fn put_block(
        &self,
        object: ObjectId,
        stretch: Stretch,
        pointer: &BlockPointer,
    ) -> Result<(), PosixError> {
        let end = self.end_of(stretch.offset, stretch.length)?;
        if end > stretch.file_end {
            self.remember_tail(object);
        }
        if pointer.is_hole() {
            return self.put(object, stretch, None);
        }
        if self.is_in_memory() && self.adopt(object, stretch, pointer)? {
            return Ok(());
        }
        let block = read_pointed(self.files.set(), object, pointer)?;
        let length = usize::try_from(stretch.length).unwrap_or(usize::MAX);
        match block.get(..length) {
            Some(bytes) => self.put(object, stretch, Some(bytes)),
            None => Err(self.bad("a block smaller than the write")),
        }
    }

    /// Makes a block of the pool a block of a file, which is read when the file is; `false` if it
    /// is not just one block there. Only in memory: on disk the log gives its blocks up.
    fn adopt(
        &self,
        object: ObjectId,
        stretch: Stretch,
        pointer: &BlockPointer,
    ) -> Result<bool, PosixError> {
        let size = pointer.logical_size();
        if stretch.length != size || !stretch.offset.is_multiple_of(size) {
            return Ok(false);
        }
        let tx = self.begin(self.edge_cost()?)?;
        let file = self.files.set().object(object)?;
        let file_size = self.files.znode(object)?.attributes().size;
        let end = stretch.offset + stretch.length;
        self.files.grow_block(&tx, &file, file_size, end)?;
        if file.block_size() != size {
            return Ok(false);
        }
        file.set_block_pointer(&tx, BlockId(stretch.offset / size), *pointer)?;
        self.grown(&tx, object, stretch.file_end)?;
        tx.keep();
        Ok(true)
    }

    /// Writes bytes, or zeros where there are none, in transactions of bounded size.
    fn put(
        &self,
        object: ObjectId,
        stretch: Stretch,
        bytes: Option<&[u8]>,
    ) -> Result<(), PosixError> {
        let Some(bytes) = bytes else {
            let tx = self.begin(self.edge_cost()?)?;
            let file = self.files.set().object(object)?;
            file.free_range(&tx, stretch.offset, stretch.length)?;
            self.grown(&tx, object, stretch.file_end)?;
            tx.keep();
            return Ok(());
        };
        let mut at = stretch.offset;
        let mut rest = bytes;
        loop {
            let to_boundary = CHUNK - usize::try_from(at % CHUNK as u64).expect("small");
            let (piece, left) = rest.split_at(rest.len().min(to_boundary));
            let tx = self.begin(self.edge_cost()? + piece.len() as u64)?;
            let end = at + piece.len() as u64;
            let file = self.files.set().object(object)?;
            let size = self.files.znode(object)?.attributes().size;
            self.files
                .grow_block(&tx, &file, size, end.max(stretch.file_end))?;
            file.write(&tx, at, piece)?;
            let reached = match left.is_empty() {
                true => stretch.file_end,
                false => end.min(stretch.file_end),
            };
            self.grown(&tx, object, reached)?;
            tx.keep();
            if left.is_empty() {
                return Ok(());
            }
            (at, rest) = (end, left);
        }
    }

    /// The contents changed, and reach at least to `end`.
    fn grown(&self, tx: &Change<'_>, object: ObjectId, end: u64) -> Result<(), PosixError> {
        let file = self.files.znode(object)?;
        let attributes = file.attributes();
        let mut changes = modified(self.files.require_writer()?, attributes);
        if end > attributes.size {
            changes = changes.word(Attribute::Size, end);
        }
        self.files.change(tx, object, &changes)
    }

    /// Makes a block of another file one of this file as well; `false` if it is not just one whole
    /// block here. The log holds a reference of its own, which it gives up when it is destroyed.
    fn share(
        &self,
        object: ObjectId,
        stretch: Stretch,
        (size, pointer): (u64, &BlockPointer),
    ) -> Result<bool, PosixError> {
        // Only a whole block can be used as it is: the rest of a longer one is unknown data.
        let is_whole = stretch.length == size && stretch.offset.is_multiple_of(size);
        if self.is_in_memory() || !is_whole || pointer.logical_size() != size {
            return Ok(false);
        }
        let file_size = self.files.znode(object)?.attributes().size;
        let tx = self.begin(self.edge_cost()?)?;
        let contents = self.files.set().object(object)?;
        let dnode = contents.dnode();
        if dnode.data_block_size != size {
            // Of a file of one block that block is as large as the file needs.
            if dnode.block_id_max.0 > 0 || file_size > size {
                return Ok(false);
            }
            contents.set_block_size(&tx, size)?;
        }
        let block = BlockId(stretch.offset / size);
        contents.set_block_pointer(&tx, block, clone_of(pointer, tx.txg()))?;
        self.grown(&tx, object, stretch.file_end)?;
        tx.keep();
        Ok(true)
    }

    /// Type 24: blocks are shared as they were, and copied where they do not fit.
    pub(super) fn clone_range(
        &self,
        object: ObjectId,
        (offset, length): (u64, u64),
        block_size: u64,
        pointers: &[u8],
    ) -> Result<(), PosixError> {
        self.regular(object)?;
        let end = self.end_of(offset, length)?;
        let count = (pointers.len() / BLOCK_POINTER_SIZE) as u64;
        if block_size == 0 || count != length.div_ceil(block_size) {
            return Err(self.bad("a clone of another number of blocks"));
        }
        let mut at = offset;
        for bytes in pointers.chunks_exact(BLOCK_POINTER_SIZE) {
            let pointer = BlockPointer::decode(bytes).expect("a chunk of a pointer's size");
            let piece = block_size.min(end - at);
            let stretch = Stretch {
                offset: at,
                length: piece,
                file_end: at + piece,
            };
            if pointer.is_hole() || !self.share(object, stretch, (block_size, &pointer))? {
                self.put_block(object, stretch, &pointer)?;
            }
            at += piece;
        }
        self.note(&self.begin(0)?)
    }

    /// Type 10: cuts off with length 0, otherwise a hole; either may make the file longer.
    pub(super) fn free_range(
        &self,
        object: ObjectId,
        offset: u64,
        length: u64,
    ) -> Result<(), PosixError> {
        let file = self.regular(object)?;
        let size = file.attributes().size;
        let end = self.end_of(offset, length)?;
        let tx = self.begin(self.edge_cost()?)?;
        if length == 0 || offset > size {
            self.resize(&tx, object, end)?;
            return self.note(&tx);
        }
        let contents = self.files.set().object(object)?;
        match end >= size && offset > 0 {
            true => free_to_end(&tx, &contents, offset)?,
            false => contents.free_range(&tx, offset, length)?,
        }
        self.grown(&tx, object, end)?;
        self.note(&tx)
    }

    /// Cuts a file off, or makes it longer by a hole.
    pub(super) fn resize(
        &self,
        tx: &Change<'_>,
        object: ObjectId,
        size: u64,
    ) -> Result<(), PosixError> {
        let file = self.regular(object)?;
        self.end_of(size, 0)?;
        self.files.resize(tx, &file, size)
    }
}
