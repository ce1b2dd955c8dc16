//! Changing a volume.
//!
//! Clients use a volume as a disk: they write any range, write zeros, and flush. A full block is
//! stored without reading the old one; a partial write reads the rest of its block. Blocks change
//! atomically. Concurrent writes of one block have some order, the same in the volume and in its
//! log.
//!
//! The size can change while the volume is in use. A writer reads it inside its transaction. So
//! shrinking a volume first sets the new size, then waits for the open group, and then frees what
//! no transaction can write to any more.

use crate::error::VolumeError;
use crate::format;
use crate::volume::Volume;
use cenote_base::{ObjectId, settings};
use cenote_dataset::{Commit, LogData, OpenDataset, read_for_log};
use cenote_dmu::{BlockBuffer, DmuError, IoContext, Object, ObjectSet, Transaction};
use cenote_ondisk::intent_log::record::{Record, RecordBody, WriteData, record_type};
use cenote_ondisk::volume_objects::VOLUME_DATA;
use std::sync::Arc;

/// The most bytes written in one transaction, unless a block is larger.
const CHUNK: u64 = 4 << 20;
/// The most blocks that one transaction makes holes of: 64 indirect blocks of the usual size.
const ZEROED_BLOCKS_MAX: u64 = 64 << 10;
/// What a change of the volume's size makes dirty.
const RESIZE_COST: u64 = 1 << 20;

/// A volume's data, from which the log reads long writes at commit.
#[derive(Debug)]
struct LoggedData(Arc<ObjectSet>);

impl LogData for LoggedData {
    fn read(
        &self,
        object: ObjectId,
        offset: u64,
        length: u64,
    ) -> Result<Option<Vec<u8>>, DmuError> {
        read_for_log(&self.0, object, offset, length)
    }
}

impl Volume {
    /// Opens the volume in `dataset` so that it can be changed. Its log, if there is one, was
    /// replayed.
    ///
    /// # Errors
    /// If it is no volume, or cannot be read.
    pub fn open_writable(dataset: Arc<OpenDataset>) -> Result<Self, VolumeError> {
        // Opening must not wait for failed devices; later reads may.
        let mut volume = Self::open(dataset.set().for_io(&IoContext::COMMAND))?;
        volume.set = Arc::clone(dataset.set());
        if !dataset.set().is_writable() {
            let objset = dataset.set().id();
            return Err(VolumeError::ReadOnly { objset });
        }
        dataset.start_log(Arc::new(LoggedData(Arc::clone(dataset.set()))));
        dataset.set_block_size(volume.block_size());
        dataset.set_most(volume.size());
        volume.dataset = Some(dataset);
        Ok(volume)
    }

    /// Whether the volume can be changed.
    pub fn is_writable(&self) -> bool {
        self.dataset.is_some()
    }

    /// The open dataset that changes go through.
    ///
    /// # Errors
    /// If the volume was opened for reading only.
    pub fn dataset(&self) -> Result<&Arc<OpenDataset>, VolumeError> {
        self.dataset.as_ref().ok_or(VolumeError::ReadOnly {
            objset: self.set().id(),
        })
    }

    /// Bytes that a change of `length` bytes may keep in memory: its edges are whole blocks.
    fn cost(&self, length: u64) -> u64 {
        length.saturating_add(2 * self.block_size())
    }

    /// Writes all of `data` at `offset`; the range must lie within the volume.
    ///
    /// It survives a power cut after [`Self::flush`], or at once with `sync=always`.
    ///
    /// # Errors
    /// If there is no space, or the pool takes no changes: a part may be written then.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), VolumeError> {
        self.check_range(offset, data.len() as u64)?;
        let (mut at, mut rest) = (offset, data);
        while !rest.is_empty() {
            // Cut where blocks begin, so that none is written twice.
            let chunk = CHUNK.max(self.block_size());
            let to_boundary = usize::try_from(chunk - at % chunk).unwrap_or(usize::MAX);
            let (piece, left) = rest.split_at(rest.len().min(to_boundary));
            let length = piece.len() as u64;
            self.write_in_one(at, length, |tx, object| {
                object.write(tx, at, piece)?;
                self.log_write(tx, at, piece);
                Ok(())
            })?;
            (at, rest) = (at + length, left);
        }
        Ok(self.dataset()?.settle(None)?)
    }

    /// As [`Self::write`], of pieces that are one after the other. One that is a whole block is
    /// taken, and not copied: an empty one is left in its place.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn write_pieces(&self, offset: u64, pieces: &mut [BlockBuffer]) -> Result<(), VolumeError> {
        let length_of = |pieces: &[BlockBuffer]| pieces.iter().map(|one| one.len() as u64).sum();
        self.check_range(offset, length_of(pieces))?;
        let (mut at, mut rest) = (offset, pieces);
        while !rest.is_empty() {
            let mut count = 1;
            while count < rest.len() && length_of(&rest[..=count]) <= CHUNK {
                count += 1;
            }
            let (now, later) = rest.split_at_mut(count);
            let length: u64 = length_of(now);
            let bytes = usize::try_from(length).expect("they are in memory");
            self.write_in_one(at, length, |tx, object| {
                object.write_buffers(tx, at, now, bytes)?;
                self.log_long_write(tx, at, length);
                Ok(())
            })?;
            (at, rest) = (at + length, later);
        }
        Ok(self.dataset()?.settle(None)?)
    }

    /// Writes a range in one transaction: changes it and notes that, in one order with others.
    fn write_in_one(
        &self,
        offset: u64,
        length: u64,
        write: impl FnOnce(&Transaction, &Object) -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        let (object, size) = (self.data()?, self.block_size());
        let (first, end) = (offset / size, (offset + length).div_ceil(size));
        // Blocks are written as a whole, and once in a group.
        let bytes = |txg| {
            let written = object.count_written_in(txg, first..end);
            (end - first).saturating_sub(written) * size
        };
        let tx = self.dataset()?.begin_for(bytes, self.cost(length))?;
        self.check_range(offset, length)?;
        let _range = self.ranges.hold(offset, length);
        write(&tx, &object)
    }

    fn log_write(&self, tx: &Transaction, offset: u64, data: &[u8]) {
        let (object, length) = (VOLUME_DATA, data.len() as u64);
        if length <= settings::ZIL_COPIED_MAX.get() {
            let data = WriteData::Immediate(data);
            let body = RecordBody::Write {
                object,
                offset,
                length,
                data,
            };
            return self.log(tx, record_type::WRITE, body);
        }
        self.log_long_write(tx, offset, length);
    }

    /// Logs a write whose data is read at commit.
    fn log_long_write(&self, tx: &Transaction, offset: u64, length: u64) {
        if let Some(sink) = self.dataset.as_ref().and_then(|dataset| dataset.log_sink()) {
            sink.append_write(tx, VOLUME_DATA, offset, length);
        }
    }

    /// Notes an operation of the transaction.
    fn log(&self, tx: &Transaction, record_type: u64, body: RecordBody<'_>) {
        if let Some(sink) = self.dataset.as_ref().and_then(|dataset| dataset.log_sink()) {
            let record = Record {
                record_type,
                case_insensitive: false,
                txg: tx.txg(),
                sequence: 0,
                body,
            };
            sink.append(tx, &record);
        }
    }

    /// Makes zeros of a range, which must lie within the volume; whole blocks become holes and
    /// take no space any more.
    ///
    /// # Errors
    /// If the pool takes no changes: a part may be zero then.
    pub fn zero(&self, offset: u64, length: u64) -> Result<(), VolumeError> {
        let dataset = self.dataset()?;
        self.check_range(offset, length)?;
        let end = offset + length;
        let step = self.block_size().saturating_mul(ZEROED_BLOCKS_MAX);
        let mut at = offset;
        // What is a hole already is passed over.
        while let Some(stored) = self.next_data(at)?.filter(|stored| *stored < end) {
            let from = stored.max(at);
            let next = (from - from % step).saturating_add(step).min(end);
            let tx = dataset.begin_freeing(self.cost(0))?;
            self.check_range(from, next - from)?;
            let range = self.ranges.hold(from, next - from);
            self.data()?.free_range(&tx, from, next - from)?;
            let body = RecordBody::Truncate {
                object: VOLUME_DATA,
                offset: from,
                length: next - from,
            };
            self.log(&tx, record_type::TRUNCATE, body);
            drop(range);
            at = next;
        }
        Ok(self.dataset()?.settle(None)?)
    }

    /// Waits until all earlier writes survive a power cut. With `sync=disabled` it returns at once.
    ///
    /// # Errors
    /// If the pool takes no more changes; then it may be lost.
    pub fn flush(&self) -> Result<(), VolumeError> {
        Ok(self.dataset()?.settle(Some(Commit::All))?)
    }

    /// Gives the volume another size, a multiple of its blocks; what lies behind a smaller one is
    /// freed. It is on disk when this returns.
    ///
    /// # Errors
    /// If the pool takes no changes. The volume has its old size then, and of what lay behind the
    /// new one nothing was lost but what was freed before the error.
    pub fn resize(&self, size: u64) -> Result<(), VolumeError> {
        let dataset = self.dataset()?;
        let (before, block_size) = (self.size(), self.block_size());
        if !size.is_multiple_of(block_size) || size >> 63 != 0 {
            return Err(VolumeError::BadSize {
                objset: self.set().id(),
                size: Some(size),
                block_size,
            });
        }
        let resized = (|| -> Result<(), VolumeError> {
            if size < before {
                self.set_size(size);
                // Writers that saw the old size are in the open group or in one before it.
                dataset.gate().wait_synced(dataset.gate().open_txg())?;
            }
            let tx = dataset.begin_freeing(RESIZE_COST)?;
            format::resize(self.set(), &tx, before, size)?;
            drop(tx);
            Ok(dataset.sync()?)
        })();
        let size = if resized.is_ok() { size } else { before };
        self.set_size(size);
        dataset.set_most(size);
        resized
    }

    /// Takes no changes from now on. Those that were made before are in the open group or in one
    /// before it.
    ///
    /// # Errors
    /// If the volume was opened for reading only.
    pub fn close(&self) -> Result<(), VolumeError> {
        self.dataset()?.close();
        Ok(())
    }
}
