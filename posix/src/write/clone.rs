//! Copying between files, by sharing blocks where that can be (format/2c 6.4).
//!
//! A block can be shared when both files have it at a multiple of the same block size, in one pool
//! and under one key, and its contents are on disk. If much of the range is still in memory, the
//! copy waits for the transaction group. Small amounts are copied, and so are the edges of a range
//! that is not aligned. Blocks that cannot be shared are copied; they never fail the request.

use super::Writer;
use super::change::Change;
use super::data::{WriteOptions, modified};
use crate::attributes::FLAG_APPEND_ONLY;
use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::znode::Znode;
use cenote_base::{BlockId, ObjectId, settings};
use cenote_dmu::{StoredBlock, clone_of};
use cenote_ondisk::system_attributes::Attribute;
use std::sync::Arc;

/// Blocks shared in one transaction.
const SHARED_AT_ONCE: u64 = 1024;
/// Memory that sharing a block takes until it is on disk.
const SHARED_COST: u64 = 512;
/// Bytes copied at a time.
const COPIED_AT_ONCE: u64 = 1 << 20;
/// From this many bytes that are not on disk yet, wait for the sync instead of copying.
const WAIT_MIN: u64 = 1 << 20;
/// Files end before this offset, as on Linux.
const SIZE_MAX: u64 = i64::MAX as u64;

/// The file that is copied from.
#[derive(Clone, Copy, Debug)]
pub struct CopySource<'a> {
    /// Its file system: the same, or another of the pool.
    pub files: &'a FileSystem,
    /// The file.
    pub id: ObjectId,
    /// Bytes from its start.
    pub offset: u64,
}

/// Where a range of a file goes.
#[derive(Clone, Copy, Debug)]
struct Range<'a> {
    source: CopySource<'a>,
    target: ObjectId,
    offset: u64,
    length: u64,
}

/// What became of the front of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    /// So many bytes are shared now.
    Shared(u64),
    /// So many bytes have to be copied before it can be tried again.
    Copy(u64),
    /// The blocks are not on disk yet.
    Dirty(u64),
}

impl FileSystem {
    /// Copies up to `length` bytes from `source` into `target` at `offset`; returns how many: fewer
    /// at the end of the source, or when `stop` returns true.
    pub fn copy_range(
        &self,
        source: CopySource<'_>,
        target: ObjectId,
        offset: u64,
        length: u64,
        stop: &dyn Fn() -> bool,
    ) -> Result<u64, PosixError> {
        let size = source.files.regular(source.id)?.attributes().size;
        let length = length.min(size.saturating_sub(source.offset));
        if offset.checked_add(length).is_none_or(|end| end > SIZE_MAX) {
            return Err(PosixError::FileTooLarge { object: target });
        }
        let (mut done, mut has_waited) = (0, false);
        while done < length && !(done > 0 && stop()) {
            let range = Range {
                source: CopySource {
                    offset: source.offset + done,
                    ..source
                },
                target,
                offset: offset + done,
                length: length - done,
            };
            let sharing = match settings::CLONE_ENABLED.is_on() {
                true => self.share(&range)?,
                false => Sharing::Copy(range.length),
            };
            let may_wait = !has_waited && settings::CLONE_WAIT_DIRTY.is_on();
            done += match sharing {
                Sharing::Shared(bytes) => bytes,
                Sharing::Dirty(_) if may_wait && range.length >= WAIT_MIN => {
                    self.sync()?;
                    has_waited = true;
                    0
                }
                Sharing::Copy(bytes) | Sharing::Dirty(bytes) => self.copy(&range, bytes)?,
            };
        }
        Ok(done)
    }

    fn regular(&self, id: ObjectId) -> Result<Arc<Znode>, PosixError> {
        let file = self.znode(id)?;
        match file.kind() {
            crate::FileKind::Regular => Ok(file),
            crate::FileKind::Directory => Err(PosixError::IsDirectory { object: id }),
            _ => Err(file.wrong_kind("a regular file")),
        }
    }

    /// Copies at most `bytes` from the front of a range.
    fn copy(&self, range: &Range<'_>, bytes: u64) -> Result<u64, PosixError> {
        let length = bytes.min(range.length).min(COPIED_AT_ONCE);
        let length = usize::try_from(length).expect("at most 1 MiB");
        let CopySource { files, id, offset } = range.source;
        let mut buffer = Vec::with_capacity(length);
        for segment in files.read_segments(&*files.znode(id)?, offset, length)? {
            match segment.bytes() {
                Some(bytes) => buffer.extend_from_slice(bytes),
                None => buffer.resize(buffer.len() + segment.length, 0),
            }
        }
        // The source may have become shorter meanwhile: what it lacks reads as zeros.
        buffer.resize(length, 0);
        self.write(range.target, range.offset, &buffer, WriteOptions::default())?;
        Ok(length as u64)
    }

    /// Whether blocks of `other` may be referred to from here.
    fn is_related(&self, other: &Self) -> bool {
        let keys = match (self.set().keys(), other.set().keys()) {
            (None, None) => true,
            (Some(one), Some(two)) => Arc::ptr_eq(one, two),
            _ => false,
        };
        keys && self.set().cache().is_same(other.set().cache())
    }

    /// Shares as many blocks as go into one transaction, from the front of a range.
    fn share(&self, range: &Range<'_>) -> Result<Sharing, PosixError> {
        let writer = self.require_writer()?;
        let source = range.source.files;
        if !self.is_related(source) || !writer.dataset.can_share() {
            return Ok(Sharing::Copy(range.length));
        }
        let is_one = source.set().id() == self.set().id();
        let _held = match is_one {
            true => writer.lock(&[range.source.id, range.target]),
            // The source is read in a transaction, and may change after it.
            false => writer.lock(&[range.target]),
        };
        let file = self.file_to_change(range.target)?;
        if range.offset < file.attributes().size {
            file.require_unlocked(FLAG_APPEND_ONLY)?;
        }
        let from = source.newest(range.source.id)?;
        let size = from.dnode().data_block_size;
        let blocks = match self.shareable(range, &file, size)? {
            Ok(blocks) => blocks.min(SHARED_AT_ONCE),
            Err(bytes) => return Ok(Sharing::Copy(bytes)),
        };
        let dirty = blocks * SHARED_COST + writer.data_cost(0);
        let bytes = blocks.saturating_mul(size);
        let Some(tx) = self.begin_sharing(file.attributes(), bytes, dirty)? else {
            return Ok(Sharing::Copy(range.length));
        };
        // In the transaction: see cenote_dmu::clone_of.
        let from = source.newest(range.source.id)?;
        if from.dnode().data_block_size != size {
            return Ok(Sharing::Copy(size));
        }
        let first = range.source.offset / size;
        let stored = (first..first + blocks).map(|block| from.stored_block(BlockId(block)));
        let mut found = Vec::new();
        for block in stored {
            match block? {
                StoredBlock::Dirty => break,
                block => found.push(block),
            }
        }
        if found.is_empty() {
            return Ok(Sharing::Dirty(size));
        }
        let length = (found.len() as u64 * size).min(range.length);
        self.put_shared(&tx, range, size, &found)?;
        self.note_shared(&tx, writer, &file, range.offset + length)?;
        self.log_clones(&tx, (range.target, range.offset, length), size, &found)?;
        tx.keep();
        Ok(Sharing::Shared(length))
    }

    /// How many blocks of `size` bytes at the front of a range can be shared; otherwise how many
    /// bytes are to be copied before the next that can.
    fn shareable(
        &self,
        range: &Range<'_>,
        file: &Znode,
        size: u64,
    ) -> Result<Result<u64, u64>, PosixError> {
        let (from, to, length) = (range.source.offset, range.offset, range.length);
        if from % size != to % size {
            return Ok(Err(length));
        }
        if from % size != 0 {
            return Ok(Err(size - from % size));
        }
        let source = range.source.files.regular(range.source.id)?;
        let target = file.attributes().size;
        let is_end = from + length >= source.attributes().size && to + length >= target;
        let blocks = match is_end {
            true => length.div_ceil(size),
            false => length / size,
        };
        let end = to.saturating_add(blocks.saturating_mul(size));
        let object = self.newest(range.target)?;
        let dnode = object.dnode();
        let fits = dnode.data_block_size == size || (dnode.block_id_max.0 == 0 && target <= size);
        // A block of an odd size is a file's only one; a small one should not become many.
        let is_lasting = size.is_power_of_two() && size >= self.write_settings()?.record_size;
        let is_small = target <= size && end > size && !is_lasting;
        Ok(match blocks > 0 && fits && !is_small {
            true => Ok(blocks),
            false => Err(length),
        })
    }

    /// Puts blocks into the target of a range.
    fn put_shared(
        &self,
        tx: &Change<'_>,
        range: &Range<'_>,
        size: u64,
        blocks: &[StoredBlock],
    ) -> Result<(), PosixError> {
        let object = self.newest(range.target)?;
        if object.dnode().data_block_size != size {
            object.set_block_size(tx, size)?;
        }
        let first = range.offset / size;
        for (number, block) in (first..).zip(blocks) {
            match block {
                StoredBlock::Pointer(pointer) => {
                    let clone = clone_of(pointer, tx.txg());
                    object.set_block_pointer(tx, BlockId(number), clone)?;
                }
                StoredBlock::Hole => object.free_range(tx, number * size, size)?,
                StoredBlock::Dirty => unreachable!("those were left out"),
            }
        }
        Ok(())
    }

    /// The attributes of a file after blocks up to `end` were put into it.
    fn note_shared(
        &self,
        tx: &Change<'_>,
        writer: &Writer,
        file: &Znode,
        end: u64,
    ) -> Result<(), PosixError> {
        let attributes = file.attributes();
        let mut changes = modified(writer, attributes);
        if end > attributes.size {
            changes = changes.word(Attribute::Size, end);
        }
        self.change(tx, file.id(), &changes)?;
        self.drop_capabilities(tx, file)
    }
}
