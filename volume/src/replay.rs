//! Replaying an intent log, on disk or in memory (format/2e 3, 4).
//!
//! Each record becomes a transaction, which also stores the record's number in the log's header.
//! After a crash during a replay, the next one resumes after the record in the header.
//!
//! A read-only pool is replayed by the same transactions, in a gate that keeps changes in memory
//! ([`OpenDataset::in_memory`]). Blocks that records point to become blocks of the volume there.
//! Their data is read on demand.

use crate::error::VolumeError;
use crate::volume::Volume;
use cenote_base::{BlockId, Env, Txg};
use cenote_dataset::{DatasetError, OpenDataset, RecordFailure, ReplayOutcome, replay_records};
use cenote_dmu::{DmuError, Object, ObjectSet, Transaction};
use cenote_intent_log::{IntentLog, read_pointed};
use cenote_ondisk::BlockPointer;
use cenote_ondisk::block_pointer::BLOCK_POINTER_SIZE;
use cenote_ondisk::intent_log::IntentLogHeader;
use cenote_ondisk::intent_log::record::{Record, RecordBody, WriteData};
use cenote_ondisk::volume_objects::VOLUME_DATA;
use std::sync::Arc;

/// The most bytes written in one transaction.
const CHUNK: usize = 4 << 20;

/// What a replay did.
pub type VolumeReplay = ReplayOutcome<VolumeError>;

/// A replay under way.
struct LogReplay<'a> {
    volume: &'a Volume,
    data: Object,
    /// The header of the log, if what is applied is to be noted in it.
    header: Option<&'a IntentLogHeader>,
    dataset: &'a OpenDataset,
}

impl Volume {
    /// Applies the records of a claimed log to the volume in `dataset`. The log stays; its header
    /// notes what was applied.
    ///
    /// A record that does not fit the volume ends the replay, as in OpenZFS.
    ///
    /// # Errors
    /// If the log or the volume cannot be read, or the pool cannot be written. The replay can then
    /// be tried again.
    pub fn replay_log(dataset: &OpenDataset, log: &IntentLog) -> Result<VolumeReplay, VolumeError> {
        let Some(window) = log.replay_window(Txg(0)) else {
            return Ok(VolumeReplay::default());
        };
        let volume = Self::open(Arc::clone(dataset.set()))?;
        let replay = LogReplay {
            data: volume.data()?,
            volume: &volume,
            header: Some(log.header()),
            dataset,
        };
        replay_records(log, window, |record| match replay.apply(record) {
            Err(error @ VolumeError::BadRecord { .. }) => Err(RecordFailure::Final(error)),
            applied => Ok(applied?),
        })
    }
}

impl Volume {
    /// As [`Self::open`], with the intent log's records applied in memory on top of the state
    /// of `last_synced`, the txg of the pool's uberblock. Not for snapshots.
    ///
    /// A record that cannot be applied ends the replay, as in OpenZFS. The volume then shows the
    /// state before it, and the outcome has the reason.
    ///
    /// # Errors
    /// If the log is unreadable, or shorter than what was claimed, or its outcome does not fit in
    /// memory.
    pub fn open_replayed(
        set: Arc<ObjectSet>,
        last_synced: Txg,
        env: Arc<dyn Env>,
    ) -> Result<(Self, VolumeReplay), VolumeError> {
        let base = Self::open(set)?;
        let Some(log) = IntentLog::open(base.set())? else {
            return Ok((base, VolumeReplay::default()));
        };
        let Some(window) = log.replay_window(last_synced) else {
            return Ok((base, VolumeReplay::default()));
        };
        let dataset = OpenDataset::in_memory(base.set(), last_synced, env);
        let volume = Self::open(Arc::clone(dataset.set()))?;
        let replay = LogReplay {
            data: volume.data()?,
            volume: &volume,
            header: None,
            dataset: &dataset,
        };
        let outcome = replay_records(&log, window, |record| {
            let applied = replay.apply(record);
            applied.map_err(|error| match error {
                VolumeError::Dataset(DatasetError::Dmu(DmuError::Memory(exceeded)))
                | VolumeError::Dmu(DmuError::Memory(exceeded)) => {
                    RecordFailure::Failed(VolumeError::ReplayMemory(exceeded))
                }
                error => RecordFailure::Final(error),
            })
        })?;
        Ok((volume, outcome))
    }
}

/// Where the block of a write of `length` bytes at `offset` goes: a block that is longer than the
/// write brings all of its contents along.
fn place_of_indirect(offset: u64, length: u64, pointer: &BlockPointer) -> (u64, u64) {
    let block_size = pointer.logical_size();
    match length < block_size {
        true => (offset - offset % block_size, block_size),
        false => (offset, length),
    }
}

impl LogReplay<'_> {
    fn apply(&self, record: &Record<'_>) -> Result<(), VolumeError> {
        let bad = || VolumeError::BadRecord {
            objset: self.volume.set().id(),
            sequence: record.sequence,
        };
        let (object, offset, length) = match record.body {
            RecordBody::Write {
                object,
                offset,
                length,
                ..
            }
            | RecordBody::CloneRange {
                object,
                offset,
                length,
                ..
            }
            | RecordBody::Truncate {
                object,
                offset,
                length,
            } => (object, offset, length),
            _ => return Err(bad()),
        };
        let fits = |end| end <= self.volume.size();
        if object != VOLUME_DATA || !offset.checked_add(length).is_some_and(fits) {
            return Err(bad());
        }
        match &record.body {
            RecordBody::Write { data, .. } => match data {
                WriteData::SizeOnly => {}
                WriteData::Immediate(bytes) => self.put(offset, bytes)?,
                WriteData::Indirect(pointer) => {
                    let (start, length) = place_of_indirect(offset, length, pointer);
                    if !start.checked_add(length).is_some_and(fits) {
                        return Err(bad());
                    }
                    self.put_block(start, length, pointer)?.ok_or_else(bad)?;
                }
            },
            RecordBody::CloneRange {
                block_size,
                pointers,
                ..
            } => self
                .put_clones((offset, length), *block_size, pointers)?
                .ok_or_else(bad)?,
            _ => {
                let tx = self.begin(2 * self.volume.block_size())?;
                self.data.free_range(&tx, offset, length)?;
            }
        }
        let Some(header) = self.header else {
            return Ok(());
        };
        let header = IntentLogHeader {
            replay_sequence: record.sequence,
            ..header.clone()
        };
        // Contents may be put there again without harm, should this come too late.
        let tx = self.begin(0)?;
        Ok(self
            .volume
            .set()
            .set_intent_log_header(&tx, header.encode())?)
    }

    fn begin(&self, dirty_bytes: u64) -> Result<Transaction, VolumeError> {
        Ok(self.dataset.begin_freeing(dirty_bytes)?)
    }

    fn put(&self, offset: u64, bytes: &[u8]) -> Result<(), VolumeError> {
        let mut at = offset;
        for piece in bytes.chunks(CHUNK) {
            let edges = 2 * self.volume.block_size();
            let tx = self.begin(piece.len() as u64 + edges)?;
            self.data.write(&tx, at, piece)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Puts `length` bytes of a block; `None` if it does not have as many.
    fn put_block(
        &self,
        offset: u64,
        length: u64,
        pointer: &BlockPointer,
    ) -> Result<Option<()>, VolumeError> {
        if pointer.is_hole() {
            let tx = self.begin(2 * self.volume.block_size())?;
            self.data.free_range(&tx, offset, length)?;
            return Ok(Some(()));
        }
        if self.dataset.is_in_memory() && self.adopt(offset, length, pointer)? {
            return Ok(Some(()));
        }
        let block = read_pointed(self.volume.set(), VOLUME_DATA, pointer)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let bytes = block.get(..length);
        bytes.map(|bytes| self.put(offset, bytes)).transpose()
    }

    /// Makes a block of the pool a block of the volume, which is read when the volume is; `false`
    /// if it is not just one block there. Only in memory: on disk the log gives its blocks up.
    fn adopt(&self, offset: u64, length: u64, pointer: &BlockPointer) -> Result<bool, VolumeError> {
        let size = self.volume.block_size();
        let is_whole = offset.is_multiple_of(size) && length == size;
        if !is_whole || pointer.logical_size() != size {
            return Ok(false);
        }
        let tx = self.begin(0)?;
        self.data
            .set_block_pointer(&tx, BlockId(offset / size), *pointer)?;
        Ok(true)
    }

    /// Puts the contents of cloned blocks; `None` if they are not what the range needs.
    fn put_clones(
        &self,
        (offset, length): (u64, u64),
        block_size: u64,
        pointers: &[u8],
    ) -> Result<Option<()>, VolumeError> {
        let count = (pointers.len() / BLOCK_POINTER_SIZE) as u64;
        if block_size == 0 || count != length.div_ceil(block_size) {
            return Ok(None);
        }
        let mut at = offset;
        for bytes in pointers.chunks_exact(BLOCK_POINTER_SIZE) {
            let pointer = BlockPointer::decode(bytes).expect("a chunk of a pointer's size");
            let piece = block_size.min(offset + length - at);
            if self.put_block(at, piece, &pointer)?.is_none() {
                return Ok(None);
            }
            at += piece;
        }
        Ok(Some(()))
    }
}
