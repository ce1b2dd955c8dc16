//! Writing to files and block devices.
//!
//! Direct transfers keep the borders that the kernel wants. A write that does not begin and end
//! on them reads the blocks at its edges, lays the new bytes over them and writes them back; only
//! one such write is under way at a time, since two may share a block. Memory that is aligned
//! goes to the device without a copy.

use crate::buffer::AlignedBuf;
use crate::file::FileDevice;
use crate::nature::check_range;
use crate::{Device, DeviceError};
use rustix::io::Errno;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;

/// Bytes per bounced transfer: large enough for a disk, small enough to stay in a CPU cache.
const BOUNCE_BYTES: usize = 1 << 20;

/// Buffers that one system call takes (`IOV_MAX`).
const VECTORS_MAX: usize = 1024;

/// What the system says to a direct transfer that it does not support.
const INVALID: i32 = Errno::INVAL.raw_os_error();

impl FileDevice {
    fn write_failed(&self, offset: u64, length: usize, source: io::Error) -> DeviceError {
        DeviceError::Write {
            path: self.path.clone(),
            offset,
            length: length as u64,
            source,
        }
    }

    /// Refuses what lies outside of the device, and everything if it was opened for reading.
    pub(crate) fn check_writable(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        check_range(&self.path, self.size(), offset, length)?;
        if self.writable {
            return Ok(());
        }
        Err(DeviceError::ReadOnly {
            path: self.path.clone(),
        })
    }

    /// Writes `bytes` at `offset`.
    pub(crate) fn write_bytes(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.check_writable(offset, bytes.len() as u64)?;
        if self.is_direct() && !self.takes_directly(offset, bytes) {
            return self.write_bounced(offset, bytes);
        }
        let written = match self.file.write_all_at(bytes, offset) {
            Err(error) if self.falls_back(&error) => self.file.write_all_at(bytes, offset),
            result => result,
        };
        written.map_err(|error| self.write_failed(offset, bytes.len(), error))
    }

    /// Writes the buffers one after the other, in one request where memory and offset allow it.
    pub(crate) fn write_buffers(
        &self,
        offset: u64,
        buffers: &[IoSlice<'_>],
    ) -> Result<(), DeviceError> {
        let length: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        self.check_writable(offset, length as u64)?;
        let pieces = buffers.iter().map(|buffer| &buffer[..]);
        let goes_directly = !self.is_direct() || self.takes_all_directly(offset, pieces);
        let mut at = offset;
        for group in buffers.chunks(VECTORS_MAX) {
            let bytes: usize = group.iter().map(|buffer| buffer.len()).sum();
            let got = match goes_directly {
                true => rustix::io::pwritev(&self.file, group, at).unwrap_or(0),
                false => 0,
            };
            // What did not go at once goes in one piece, and an error says where.
            if got < bytes {
                let mut whole = AlignedBuf::take(bytes);
                let mut rest = &mut whole[..];
                for buffer in group {
                    let (place, after) = rest.split_at_mut(buffer.len());
                    place.copy_from_slice(buffer);
                    rest = after;
                }
                self.write_bytes(at, &whole)?;
            }
            at += bytes as u64;
        }
        Ok(())
    }

    fn falls_back(&self, error: &io::Error) -> bool {
        error.raw_os_error() == Some(INVALID) && self.fall_back(Errno::INVAL)
    }

    /// Writes by way of aligned buffers.
    fn write_bounced(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let border = self.alignment.offset;
        let mut done = 0;
        while done < bytes.len() {
            let position = offset + done as u64;
            let skip = (position % border) as usize;
            let piece = (bytes.len() - done).min(BOUNCE_BYTES - skip);
            self.write_widened(position, &bytes[done..done + piece])?;
            done += piece;
        }
        Ok(())
    }

    /// Reads what surrounds an unaligned write, lays the new bytes over it, writes it back.
    fn write_widened(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let border = usize::try_from(self.alignment.offset).expect("4 KiB at most");
        let skip = (offset % border as u64) as usize;
        let end = skip + bytes.len();
        let wide = end.next_multiple_of(border);
        let start = offset - skip as u64;
        let available = usize::try_from(self.size() - start).unwrap_or(usize::MAX);
        let mut buffer = AlignedBuf::take(wide);
        let is_whole = skip == 0 && end == wide;
        let _guard = (!is_whole).then(|| self.unaligned_write.lock());
        if skip > 0 {
            self.read_edge(start, &mut buffer[..border], available)?;
        }
        if end < wide && (skip == 0 || wide > border) {
            let last = wide - border;
            self.read_edge(start + last as u64, &mut buffer[last..], available - last)?;
        }
        buffer[skip..end].copy_from_slice(bytes);
        let result = self
            .file
            .write_all_at(&buffer[..wide.min(available)], start);
        let result = match result {
            // Also the tail of a file whose size is no multiple of a sector cannot go directly.
            Err(error) if self.falls_back(&error) => self.file.write_all_at(bytes, offset),
            result => result,
        };
        result.map_err(|error| self.write_failed(offset, bytes.len(), error))
    }

    /// Reads the block at the edge of a write; the last one of a file may be shorter.
    fn read_edge(
        &self,
        offset: u64,
        block: &mut [u8],
        available: usize,
    ) -> Result<(), DeviceError> {
        let wanted = block.len().min(available);
        let got = self
            .read_some(offset, block)
            .map_err(|errno| self.write_failed(offset, wanted, errno.into()))?;
        match got < wanted {
            true => Err(self.short(offset, wanted, got)),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, FileOptions, Purpose};
    use std::path::Path;

    fn open(path: &Path, writable: bool) -> Result<FileDevice, DeviceError> {
        let direct = true;
        FileDevice::open(path, FileOptions { writable, direct })
    }

    #[test]
    fn only_one_may_write() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.as_file().set_len(1 << 20).expect("sparse");
        let first = open(file.path(), true).expect("free");
        assert!(matches!(
            open(file.path(), true),
            Err(DeviceError::InUse { .. })
        ));
        assert!(open(file.path(), false).is_ok(), "readers may look");
        // A process that is forked elsewhere in this one has the file, too, until it runs another
        // program; the lock does not wait for that.
        let copy = first.file.try_clone().expect("another descriptor");
        drop(first);
        assert!(open(file.path(), true).is_ok());
        drop(copy);
    }

    #[test]
    fn buffers_go_out_in_order() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.as_file().set_len(8 << 20).expect("sparse");
        let device = open(file.path(), true).expect("free");
        let mut expected = vec![0; 8 << 20];
        for (offset, sizes) in [
            (4096, vec![4096; 2000]),
            (512, vec![512, 1024, 4096]),
            (1 << 20, vec![1, 4095, 100]),
        ] {
            let parts: Vec<AlignedBuf> = sizes
                .iter()
                .enumerate()
                .map(|(index, size)| {
                    let mut part = AlignedBuf::take(*size);
                    part.fill((index % 250) as u8 + 1);
                    part
                })
                .collect();
            let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
            device
                .write_vectored(offset, &slices, Purpose::Unknown)
                .expect("writable");
            let mut at = offset as usize;
            for part in &parts {
                expected[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            }
        }
        device.flush().expect("a file flushes");
        let back = device.read_vec(0, expected.len()).expect("in range");
        assert!(back == expected);
    }
}
