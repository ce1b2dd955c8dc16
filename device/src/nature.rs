//! The device as the layers above see it.

use crate::{DeviceError, Lead, Purpose};
use std::fmt::Debug;
use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::path::Path;

/// What a device is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A regular file.
    File,
    /// A block device.
    Block,
    /// Memory, or a simulation.
    Memory,
    /// Objects in a store: each request is dear, and many of them at once are not.
    Store,
}

/// What is cheap and what is dear on a device; placement and batching go by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nature {
    /// What the device is made of.
    pub kind: DeviceKind,
    /// Bytes of the smallest transfer that needs no read-modify-write below us.
    pub logical_block_size: u32,
    /// Whether seeks are expensive; `None` if unknown.
    pub rotational: Option<bool>,
}

/// A flat range of bytes that survives.
///
/// All methods take any offset and length within the size. Calls from many threads run in
/// parallel; overlapping concurrent writes are the caller's mistake.
pub trait Device: Debug + Send + Sync {
    /// The size in bytes: as it was at the time of opening, or of the last [`Self::grow`].
    fn size(&self) -> u64;

    /// The size in bytes as it is by now.
    fn size_now(&self) -> u64 {
        self.size()
    }

    /// From now on the device is as large as it has become. It does not become smaller.
    fn grow(&self) {}

    /// Fills `buffer` with the bytes at `offset`, all of them or an error.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError>;

    /// The `length` bytes at `offset` in a fresh buffer, which need not be zeroed first.
    fn read_vec(&self, offset: u64, length: usize) -> Result<Vec<u8>, DeviceError> {
        let mut buffer = vec![0; length];
        self.read_at(offset, &mut buffer)?;
        Ok(buffer)
    }

    /// Fills the buffers one after the other with the bytes from `offset` on, at best at once.
    fn read_vectored(
        &self,
        mut offset: u64,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Result<(), DeviceError> {
        for buffer in buffers {
            self.read_at(offset, buffer)?;
            offset = offset.saturating_add(buffer.len() as u64);
        }
        Ok(())
    }

    /// Says that these ranges are read next, so that a device for which each request is dear can
    /// fetch all of them at once. What is wrong with them, the reads tell.
    fn prefetch(&self, _ranges: &[Range<u64>]) {}

    /// As [`Self::read_at`], of the medium itself. A device that keeps copies nearer than its
    /// medium
    /// does not answer from those.
    ///
    /// A device that wraps another one passes it on.
    fn read_medium(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.read_at(offset, buffer)
    }

    /// As [`Self::prefetch`], for [`Self::read_medium`].
    fn prefetch_medium(&self, ranges: &[Range<u64>]) {
        self.prefetch(ranges);
    }

    /// Says that a verification of the medium begins: what was read of it before proves nothing. A
    /// device that has more on its medium than what is read checks that here, and reports it by its
    /// own ways.
    fn begin_verification(&self) {}

    /// Writes all of `bytes` at `offset`. Durable only after [`Self::flush`].
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Writes the buffers one after the other from `offset` on, at best at once.
    ///
    /// `purpose` says what they are. A device that wraps another one passes it on.
    fn write_vectored(
        &self,
        mut offset: u64,
        buffers: &[IoSlice<'_>],
        _purpose: Purpose,
    ) -> Result<(), DeviceError> {
        for buffer in buffers {
            self.write_at(offset, buffer)?;
            offset = offset.saturating_add(buffer.len() as u64);
        }
        Ok(())
    }

    /// Says that everything written before completes the transaction group `txg`.
    ///
    /// A device that keeps a record of its states notes the group there. A [`Self::flush`] follows,
    /// which reports what went wrong.
    fn complete_group(&self, _txg: u64) {}

    /// Returns once everything written before is durable.
    fn flush(&self) -> Result<(), DeviceError>;

    /// Says that a range's contents no longer matter. What it reads as afterwards is unspecified.
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError>;

    /// Whether discarding a range has an effect.
    fn can_discard(&self) -> bool {
        true
    }

    /// Lets others open the device for writing; nothing is written to it here any more.
    fn unlock(&self) {}

    /// What is cheap and what is dear here.
    fn nature(&self) -> Nature;

    /// Bytes of the smallest transfer that the medium makes: never less than the logical block
    /// size that [`Nature`] names.
    fn physical_block_size(&self) -> u32 {
        self.nature().logical_block_size
    }

    /// The path that the device was opened by.
    fn path(&self) -> &Path;

    /// Where that path leads by now: a file may be exchanged for another one while it is open.
    ///
    /// A device that is no file and no block device, and proves in its own way that it is still the
    /// one that was opened, answers [`Lead::Here`]. One that wraps another passes the question on.
    fn lead(&self) -> Lead {
        Lead::Here
    }

    /// The path, and which part of it when the device is a window.
    fn description(&self) -> String {
        self.path().display().to_string()
    }

    /// Whether writes are possible at all.
    fn is_writable(&self) -> bool {
        false
    }
}

/// The bytes that fill all buffers.
pub(crate) fn total_length(buffers: &[IoSliceMut<'_>]) -> u64 {
    buffers.iter().map(|buffer| buffer.len() as u64).sum()
}

/// Whether `[offset, offset + length)` lies within the device's `size`.
pub(crate) fn check_range(
    path: &Path,
    size: u64,
    offset: u64,
    length: u64,
) -> Result<(), DeviceError> {
    match offset.checked_add(length) {
        Some(end) if end <= size => Ok(()),
        _ => Err(DeviceError::OutOfRange {
            path: path.into(),
            offset,
            length,
            size,
        }),
    }
}
