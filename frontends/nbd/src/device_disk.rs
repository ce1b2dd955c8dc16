//! A device of the layers below as an export: a block device, a window, one in a store.

use crate::device::{BlockDevice, BlockError, BlockSizes, Extent, ZeroMode, all_data};
use crate::read_data::ReadData;
use cenote_device::{Device, DeviceKind};
use cenote_nbd_client::protocol::ErrorCode;
use std::ops::Range;
use std::sync::Arc;

/// Zeros that are written at once.
const ZEROS: &[u8] = &[0; 256 << 10];

/// A device of the layers below.
#[derive(Debug)]
pub struct DeviceDisk {
    device: Arc<dyn Device>,
    is_read_only: bool,
}

impl DeviceDisk {
    /// Exports `device`, for reading only if it is not writable or `is_read_only`.
    pub fn new(device: Arc<dyn Device>, is_read_only: bool) -> Self {
        Self {
            is_read_only: is_read_only || !device.is_writable(),
            device,
        }
    }

    /// The part of a range that consists of whole blocks.
    fn whole_blocks(&self, range: &Range<u64>) -> Range<u64> {
        let block = u64::from(self.device.nature().logical_block_size.max(512));
        let start = range.start.next_multiple_of(block);
        start..(range.end / block * block).max(start)
    }
}

impl BlockDevice for DeviceDisk {
    fn size(&self) -> u64 {
        self.device.size()
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn is_rotational(&self) -> bool {
        self.device.nature().rotational == Some(true)
    }

    fn can_trim(&self) -> bool {
        self.device.can_discard()
    }

    fn knows_fast_zero(&self) -> bool {
        true
    }

    fn description(&self) -> Option<String> {
        Some(self.device.description())
    }

    fn read(&self, offset: u64, length: usize, data: &mut ReadData) -> Result<(), BlockError> {
        Ok(data.push_filled(length, |buffer| self.device.read_at(offset, buffer))?)
    }

    fn write(&self, offset: u64, bytes: &[u8], is_durable: bool) -> Result<(), BlockError> {
        self.device.write_at(offset, bytes)?;
        match is_durable {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&self) -> Result<(), BlockError> {
        Ok(self.device.flush()?)
    }

    fn block_sizes(&self) -> BlockSizes {
        BlockSizes {
            preferred: self.device.physical_block_size().clamp(4096, 64 << 10),
            ..BlockSizes::default()
        }
    }

    fn trim(&self, range: Range<u64>) -> Result<(), BlockError> {
        let whole = self.whole_blocks(&range);
        match whole.is_empty() {
            true => Ok(()),
            false => Ok(self.device.discard(whole.start, whole.end - whole.start)?),
        }
    }

    fn zero(&self, range: Range<u64>, mode: ZeroMode) -> Result<(), BlockError> {
        // What is discarded in a store reads as zeros; elsewhere it may read as anything, so zeros
        // are written, and never fast.
        let is_in_store = self.device.nature().kind == DeviceKind::Store;
        if is_in_store && !mode.keeps_space && self.whole_blocks(&range) == range {
            return Ok(self.device.discard(range.start, range.end - range.start)?);
        }
        if mode.is_fast {
            let text = "this device has no fast way to zero a range";
            return Err(BlockError::new(ErrorCode::NotSupported, text));
        }
        let mut at = range.start;
        while at < range.end {
            let piece = (range.end - at).min(ZEROS.len() as u64) as usize;
            self.device.write_at(at, &ZEROS[..piece])?;
            at += piece as u64;
        }
        Ok(())
    }

    fn cache(&self, range: Range<u64>) -> Result<(), BlockError> {
        self.device.prefetch(&[range]);
        Ok(())
    }

    fn extents(
        &self,
        context: &str,
        range: Range<u64>,
        _most: usize,
    ) -> Result<Vec<Extent>, BlockError> {
        all_data(context, range)
    }
}
