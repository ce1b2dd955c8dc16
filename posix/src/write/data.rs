//! Contents of files: writing, truncation, holes (format/3b 5).
//!
//! A file of one block has a block just as large as it needs, up to the record size; from then on
//! its blocks keep their size. Whole blocks are written as they come. Bytes behind the end are
//! zeros in the last block: truncation clears them.

use super::change::Change;
use super::create::FLAGS_MODIFIED;
use super::store::Changes;
use super::{NAMES_COST, Writer};
use crate::attributes::{Attributes, FLAG_APPEND_ONLY};
use crate::error::PosixError;
use crate::file::Access;
use crate::file_system::FileSystem;
use crate::kind::FileKind;
use crate::privileges::Changer;
use crate::time::Timestamp;
use crate::znode::Znode;
use cenote_base::{BLOCK_SIZE_MAX, ObjectId, SECTOR_SIZE, Txg};
use cenote_dmu::{BlockBuffer, DmuError, Object};
use cenote_ondisk::system_attributes::Attribute;
use std::ops::Range;
use std::sync::Arc;

/// The most bytes written in one transaction.
const CHUNK: usize = 4 << 20;
/// Files end before this offset, as on Linux.
const SIZE_MAX: u64 = i64::MAX as u64;
const FLAG_SPARSE: u64 = 0x2000_0000_0000;

/// How a write is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Write at the current end of the file (`O_APPEND`); the offset is ignored.
    pub append: bool,
    /// Decides which of the setuid and setgid bits stay.
    pub changer: Changer,
    /// How the writer has the file open.
    pub access: Access,
}

/// What `fallocate(2)` is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallocateMode {
    /// See that the range can be written; the file grows to its end unless the size is kept.
    Allocate {
        /// The size stays.
        keep_size: bool,
    },
    /// Make a hole of it; the size stays.
    PunchHole,
    /// Make zeros of it.
    ZeroRange {
        /// The size stays.
        keep_size: bool,
    },
}

/// The size that the first block grows to when the file reaches to `end`, if it grows
/// (format/3b 5, "Block size rule").
fn grown_block(block_size: u64, record_size: u64, size: u64, end: u64) -> Option<u64> {
    if end <= block_size {
        return None;
    }
    let limit = match block_size > record_size && !block_size.is_power_of_two() {
        true => block_size.next_power_of_two().min(BLOCK_SIZE_MAX),
        false => record_size,
    };
    let needed = size.max(end).next_multiple_of(SECTOR_SIZE);
    let grown = limit.min(needed).max(block_size);
    (grown > block_size).then_some(grown)
}

/// Bytes of blocks that a write of `range` to a file of `size` bytes adds to what is written with
/// the group `txg`. Blocks are written as a whole, and once in a group.
fn bytes_written(
    object: &Object,
    (size, record_size): (u64, u64),
    range: &Range<u64>,
    txg: Txg,
) -> u64 {
    if range.is_empty() {
        return 0;
    }
    let dnode = object.dnode();
    let now = dnode.data_block_size;
    let grown = match dnode.block_id_max.0 {
        0 => grown_block(now, record_size, size, range.end),
        _ => None,
    };
    let block = grown.unwrap_or(now);
    let (first, last) = (range.start / block, (range.end - 1) / block);
    let bytes = (last - first + 1) * block;
    // If the block size of a file with one block grows, that block is written again as well.
    let is_apart = grown.is_some() && first > 0;
    let (bytes, first) = match is_apart {
        true => (bytes + block, 0),
        false => (bytes, first),
    };
    bytes.saturating_sub(object.count_written_in(txg, first..last + 1) * now)
}

impl Writer {
    /// Bytes that a write of `length` may make dirty: its blocks' edges come on top.
    pub(super) fn data_cost(&self, length: u64) -> u64 {
        length + 2 * self.settings().record_size
    }
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenMode {
    /// To write.
    pub writes: bool,
    /// Only at the end.
    pub appends: bool,
    /// And emptied at once.
    pub truncates: bool,
}

impl FileSystem {
    /// Refuses to open a file for what its flags forbid.
    pub fn check_open(&self, id: ObjectId, mode: OpenMode) -> Result<(), PosixError> {
        if !mode.writes && !mode.truncates {
            return Ok(());
        }
        let file = self.znode(id)?;
        file.require_mutable()?;
        match mode.appends && !mode.truncates {
            true => Ok(()),
            false => file.require_unlocked(FLAG_APPEND_ONLY),
        }
    }

    pub(super) fn file_to_change(&self, id: ObjectId) -> Result<Arc<Znode>, PosixError> {
        let file = self.znode(id)?;
        match file.kind() {
            FileKind::Regular => {}
            FileKind::Directory => return Err(PosixError::IsDirectory { object: id }),
            _ => return Err(file.wrong_kind("a regular file")),
        }
        file.require_mutable()?;
        Ok(file)
    }

    /// Writes all of `data` at `offset`, or at the end; returns where.
    pub fn write(
        &self,
        id: ObjectId,
        offset: u64,
        data: &[u8],
        options: WriteOptions,
    ) -> Result<u64, PosixError> {
        let writer = self.require_writer()?;
        let _held = writer.lock(&[id]);
        let start = self.start_of_write(id, offset, data.len(), options)?;
        let mut at = start;
        let mut rest = data;
        while !rest.is_empty() {
            // Cut at a multiple of all block sizes, so that no block is written twice.
            let to_boundary = CHUNK - usize::try_from(at % CHUNK as u64).expect("small");
            let (piece, left) = rest.split_at(rest.len().min(to_boundary));
            let end = at + piece.len() as u64;
            let tx = self.begin_write(id, at..end)?;
            self.write_piece(&tx, id, at..end, options, |object| {
                object.write(&tx, at, piece)
            })?;
            tx.keep();
            self.log_write(&tx, (id, at), piece);
            at = end;
            rest = left;
        }
        Ok(start)
    }

    /// As [`Self::write`] of the first `length` bytes of `buffers`, taken one after the other, in
    /// one transaction. A buffer that is a whole block of the file is taken and not copied; an
    /// empty one is left in its place. Returns the size of the file's blocks.
    pub fn write_buffers(
        &self,
        id: ObjectId,
        offset: u64,
        buffers: &mut [BlockBuffer],
        length: usize,
        options: WriteOptions,
    ) -> Result<u64, PosixError> {
        let writer = self.require_writer()?;
        let _held = writer.lock(&[id]);
        let start = self.start_of_write(id, offset, length, options)?;
        let range = start..start + length as u64;
        let tx = self.begin_write(id, range.clone())?;
        let mut block_size = 0;
        self.write_piece(&tx, id, range, options, |object| {
            block_size = object.block_size();
            object.write_buffers(&tx, start, buffers, length)
        })?;
        tx.keep();
        self.log_long_write(&tx, (id, start), length as u64);
        Ok(block_size)
    }

    /// Where a write begins, if it may be done. The file's lock is held.
    fn start_of_write(
        &self,
        id: ObjectId,
        offset: u64,
        length: usize,
        options: WriteOptions,
    ) -> Result<u64, PosixError> {
        let file = self.file_to_change(id)?;
        let start = match options.append {
            true => file.attributes().size,
            false => offset,
        };
        if start < file.attributes().size {
            file.require_unlocked(FLAG_APPEND_ONLY)?;
        }
        let end = start.checked_add(length as u64);
        if end.is_none_or(|end| end > SIZE_MAX) {
            return Err(PosixError::FileTooLarge { object: id });
        }
        Ok(start)
    }

    /// Begins a transaction that writes a range of a file.
    fn begin_write(&self, id: ObjectId, range: Range<u64>) -> Result<Change<'_>, PosixError> {
        let writer = self.require_writer()?;
        let file = self.znode(id)?;
        let attributes = file.attributes();
        let record_size = writer.settings().record_size;
        let object = self.newest(id)?;
        let bytes = |txg| bytes_written(&object, (attributes.size, record_size), &range, txg);
        let length = range.end - range.start;
        self.begin_growing(attributes, bytes, NAMES_COST + writer.data_cost(length))
    }

    /// Writes contents of a range by `store`, once the first block is as large as that takes.
    fn write_piece(
        &self,
        tx: &Change<'_>,
        id: ObjectId,
        range: Range<u64>,
        options: WriteOptions,
        store: impl FnOnce(&Object) -> Result<(), DmuError>,
    ) -> Result<(), PosixError> {
        let writer = self.require_writer()?;
        let file = self.znode(id)?;
        let attributes = file.attributes();
        let object = self.newest(id)?;
        let end = range.end;
        self.grow_block(tx, &object, attributes.size, end)?;
        store(&object)?;
        let length = end - range.start;
        object.set_written_in_passing(self.is_in_passing(options.access, range.start, length));
        let mut changes = modified(writer, attributes);
        if end > attributes.size {
            changes = changes.word(Attribute::Size, end);
        }
        let mode = options.changer.leaves(attributes.mode);
        if mode != attributes.mode {
            changes = changes.word(Attribute::Mode, mode);
        }
        self.change(tx, id, &changes)?;
        if mode != attributes.mode {
            self.log_mode(tx, id, mode);
        }
        self.drop_capabilities(tx, &file)
    }

    /// Enlarges the only block of a file that is to reach to `end`.
    pub(super) fn grow_block(
        &self,
        tx: &Change<'_>,
        object: &Object,
        size: u64,
        end: u64,
    ) -> Result<(), PosixError> {
        let dnode = object.dnode();
        if dnode.block_id_max.0 > 0 {
            return Ok(());
        }
        let record_size = self.write_settings()?.record_size;
        if let Some(grown) = grown_block(dnode.data_block_size, record_size, size, end) {
            object.set_block_size(tx, grown)?;
        }
        Ok(())
    }

    /// Sets a file's size: what lies behind a smaller one is freed, a larger one ends in a hole.
    pub fn truncate(&self, id: ObjectId, size: u64) -> Result<(), PosixError> {
        let writer = self.require_writer()?;
        let _held = writer.lock(&[id]);
        self.truncate_locked(id, size).map(drop)
    }

    /// The same of a file whose lock is held; returns it as it is then.
    pub(super) fn truncate_locked(
        &self,
        id: ObjectId,
        size: u64,
    ) -> Result<Arc<Znode>, PosixError> {
        let tx = self.begin_truncation(id, size)?;
        self.log_modified(&tx, id)?;
        let resized = self.znode(id)?;
        tx.keep();
        Ok(resized)
    }

    /// A transaction in which a file has got its new size; its time is not logged yet.
    pub(super) fn begin_truncation(
        &self,
        id: ObjectId,
        size: u64,
    ) -> Result<Change<'_>, PosixError> {
        let file = self.file_to_change(id)?;
        file.require_unlocked(FLAG_APPEND_ONLY)?;
        if size > SIZE_MAX {
            return Err(PosixError::FileTooLarge { object: id });
        }
        let attributes = file.attributes();
        let cost = self.require_writer()?.data_cost(0);
        let tx = match size > attributes.size {
            // Of what is behind the old end only the edges become blocks.
            true => self.begin_growing(attributes, |_| SECTOR_SIZE, NAMES_COST + cost)?,
            false => self.begin_freeing(cost)?,
        };
        self.resize(&tx, &file, size)?;
        self.log_freed(&tx, id, (size, 0));
        Ok(tx)
    }

    /// Sets the size of a file, whose lock is held.
    pub(super) fn resize(
        &self,
        tx: &Change<'_>,
        file: &Znode,
        size: u64,
    ) -> Result<(), PosixError> {
        let attributes = file.attributes();
        let object = self.newest(file.id())?;
        let changes = modified(self.require_writer()?, attributes);
        let mut changes = changes.word(Attribute::Size, size);
        if size > attributes.size {
            self.grow_block(tx, &object, attributes.size, size)?;
        } else if size < attributes.size {
            object.free_range(tx, size, u64::MAX)?;
        }
        if size == 0 {
            let flags = (attributes.flags | FLAGS_MODIFIED) & !FLAG_SPARSE;
            changes = changes.word(Attribute::Flags, flags);
        }
        self.change(tx, file.id(), &changes)?;
        self.drop_capabilities(tx, file)
    }

    /// Allocates, zeroes or punches `[offset, offset + length)`.
    pub fn fallocate(
        &self,
        id: ObjectId,
        offset: u64,
        length: u64,
        mode: FallocateMode,
    ) -> Result<(), PosixError> {
        let writer = self.require_writer()?;
        let end = offset.checked_add(length).filter(|end| *end <= SIZE_MAX);
        let end = end.ok_or(PosixError::FileTooLarge { object: id })?;
        let _held = writer.lock(&[id]);
        let file = self.file_to_change(id)?;
        file.require_unlocked(FLAG_APPEND_ONLY)?;
        let attributes = file.attributes();
        let (clears, keep_size) = match mode {
            FallocateMode::Allocate { keep_size } => (false, keep_size),
            FallocateMode::PunchHole => (true, true),
            FallocateMode::ZeroRange { keep_size } => (true, keep_size),
        };
        let grows = !keep_size && end > attributes.size;
        if !clears {
            self.check_quotas_of(attributes)?;
            // The space is not reserved: copies of written blocks need new space in any case.
            writer.dataset.check_space(length)?;
        }
        let tx = self.begin_freeing(writer.data_cost(0))?;
        let object = self.newest(id)?;
        let now = writer.now();
        let mut changes = modified_at(now, attributes);
        let cleared = end.min(attributes.size);
        if clears && offset < cleared {
            // To the end of the file's last block, where only zeros follow.
            let to_end = cleared == attributes.size && offset > 0;
            match to_end {
                true => free_to_end(&tx, &object, offset)?,
                false => object.free_range(&tx, offset, cleared - offset)?,
            }
            self.log_freed(&tx, id, (offset, cleared - offset));
        }
        if grows {
            self.grow_block(&tx, &object, attributes.size, end)?;
            changes = changes.word(Attribute::Size, end);
            self.log_freed(&tx, id, (end, 0));
        }
        self.change(&tx, id, &changes)?;
        self.log_modified(&tx, id)?;
        self.drop_capabilities(&tx, &file)?;
        tx.keep();
        Ok(())
    }
}

/// Clears from `offset` to the end of the object's last block.
pub(super) fn free_to_end(tx: &Change<'_>, object: &Object, offset: u64) -> Result<(), PosixError> {
    let dnode = object.dnode();
    let blocks = dnode.block_id_max.0.saturating_add(1);
    let end = blocks.saturating_mul(dnode.data_block_size);
    Ok(object.free_range(tx, offset, end.saturating_sub(offset))?)
}

/// The changes that every change of contents makes.
pub(super) fn modified(writer: &Writer, attributes: &Attributes) -> Changes {
    modified_at(writer.now(), attributes)
}

fn modified_at(now: Timestamp, attributes: &Attributes) -> Changes {
    let changes = Changes::new()
        .time(Attribute::Mtime, now)
        .time(Attribute::Ctime, now);
    match attributes.flags | FLAGS_MODIFIED {
        same if same == attributes.flags => changes,
        flags => changes.word(Attribute::Flags, flags),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_block_grows_by_the_rule() {
        let record = 128 << 10;
        assert_eq!(grown_block(512, record, 0, 1), None);
        assert_eq!(grown_block(512, record, 0, 513), Some(1024));
        assert_eq!(grown_block(512, record, 100, 10_100), Some(10_240));
        assert_eq!(grown_block(1024, record, 1000, 1 << 20), Some(record));
        assert_eq!(grown_block(record, record, record, 1 << 20), None);
        assert_eq!(grown_block(200 << 10, record, 0, 1 << 20), Some(256 << 10));
        assert_eq!(grown_block(256 << 10, record, 0, 1 << 20), None);
        assert_eq!(grown_block(2560, 4096, 2000, 3000), Some(3072));
    }
}
