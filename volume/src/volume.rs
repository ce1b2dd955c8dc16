//! An open volume.

use crate::error::VolumeError;
use crate::ranges::Ranges;
use cenote_base::BlockId;
use cenote_dataset::OpenDataset;
use cenote_dmu::{Object, ObjectSet, Segment};
use cenote_ondisk::objset::ObjsetKind;
use cenote_ondisk::volume_objects::{VOLUME_DATA, VOLUME_PROPERTIES, VOLUME_SIZE};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A volume, or a snapshot of one.
#[derive(Debug)]
pub struct Volume {
    pub(crate) set: Arc<ObjectSet>,
    block_size: u64,
    /// Bytes of the volume; a change of `volsize` changes it.
    size: AtomicU64,
    /// What changing it takes.
    pub(crate) dataset: Option<Arc<OpenDataset>>,
    /// Keeps changes and their records in one order.
    pub(crate) ranges: Ranges,
}

impl Volume {
    /// Opens the volume in `set`, without regard to its intent log.
    ///
    /// An encrypted one whose key is not loaded is refused.
    pub fn open(set: Arc<ObjectSet>) -> Result<Self, VolumeError> {
        let objset = set.id();
        if set.header().kind != ObjsetKind::Volume {
            return Err(VolumeError::NotVolume { objset });
        }
        if set.root().uses_crypt() && set.keys().is_none() {
            return Err(VolumeError::KeyNotLoaded { objset });
        }
        let block_size = set.object(VOLUME_DATA)?.dnode().data_block_size;
        let size = set.zap(VOLUME_PROPERTIES)?.lookup_u64(VOLUME_SIZE)?;
        // 2^63 is the most that a device's size in bytes can be.
        match size.filter(|size| size.is_multiple_of(block_size) && size >> 63 == 0) {
            Some(size) => Ok(Self {
                set,
                block_size,
                size: AtomicU64::new(size),
                dataset: None,
                ranges: Ranges::new(block_size),
            }),
            None => Err(VolumeError::BadSize {
                objset,
                size,
                block_size,
            }),
        }
    }

    /// The object set below.
    pub fn set(&self) -> &Arc<ObjectSet> {
        &self.set
    }

    /// Bytes of the volume (`volsize`).
    pub fn size(&self) -> u64 {
        self.size.load(Ordering::SeqCst)
    }

    pub(crate) fn set_size(&self, size: u64) {
        self.size.store(size, Ordering::SeqCst);
    }

    /// The object with the contents, as it is now.
    pub(crate) fn data(&self) -> Result<Object, VolumeError> {
        Ok(self.set.object(VOLUME_DATA)?)
    }

    /// Bytes of a block (`volblocksize`): what is written and stored as one.
    pub fn block_size(&self) -> u64 {
        self.block_size
    }

    pub(crate) fn check_range(&self, offset: u64, length: u64) -> Result<(), VolumeError> {
        let size = self.size();
        let end = offset.checked_add(length);
        match end.filter(|end| *end <= size) {
            Some(_) => Ok(()),
            None => Err(VolumeError::BeyondEnd {
                offset,
                length,
                size,
            }),
        }
    }

    /// The contents of `[offset, offset + length)` as pieces of blocks in order; the range must
    /// lie within the volume.
    pub fn segments(&self, offset: u64, length: usize) -> Result<Vec<Segment>, VolumeError> {
        self.check_range(offset, length as u64)?;
        Ok(self.data()?.segments(offset, length)?)
    }

    /// Fills `buffer` from `offset` on; the range must lie within the volume.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), VolumeError> {
        let mut at = 0;
        for segment in self.segments(offset, buffer.len())? {
            let target = &mut buffer[at..at + segment.length];
            match segment.bytes() {
                Some(bytes) => target.copy_from_slice(bytes),
                None => target.fill(0),
            }
            at += segment.length;
        }
        assert_eq!(at, buffer.len(), "the segments cover the range");
        Ok(())
    }

    /// The first byte at or behind `offset` that is stored; `None` if none follows.
    pub fn next_data(&self, offset: u64) -> Result<Option<u64>, VolumeError> {
        let found = self.data()?.next_data(offset)?;
        let size = self.size();
        Ok(found.filter(|found| *found < size))
    }

    /// The first byte at or behind `offset` that is not stored, at most the volume's size.
    pub fn next_hole(&self, offset: u64) -> Result<u64, VolumeError> {
        let found = self.data()?.next_hole(offset)?;
        Ok(found.min(self.size()))
    }

    /// Whether block `block` is stored anywhere, as discard support asks.
    pub fn is_stored(&self, block: BlockId) -> Result<bool, VolumeError> {
        let start = block.0.saturating_mul(self.block_size());
        let data = self.next_data(start)?;
        Ok(data.is_some_and(|data| data - start < self.block_size()))
    }
}
