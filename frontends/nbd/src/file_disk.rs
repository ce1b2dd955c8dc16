//! A regular file as an export: sparse, with holes that clients see and can make.

use crate::device::{BlockDevice, BlockError, Extent, ZeroMode, unknown_context};
use crate::read_data::ReadData;
use cenote_nbd_client::protocol::{BASE_ALLOCATION, ErrorCode, allocation};
use rustix::fs::{FallocateFlags, FlockOperation, SeekFrom, fallocate, flock, seek};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Smaller reads do not look for holes: that costs as much as reading the bytes.
const HOLE_BYTES_MIN: usize = 64 << 10;
/// Zeros that are written at once where the file system cannot make holes.
const ZEROS: &[u8] = &[0; 256 << 10];

/// A regular file.
#[derive(Debug)]
pub struct FileDisk {
    file: File,
    path: PathBuf,
    is_read_only: bool,
}

impl FileDisk {
    /// Opens the file at `path`, and locks it unless it is only read.
    ///
    /// # Errors
    /// It cannot be opened, is no regular file, or another process writes to it.
    pub fn open(path: &Path, is_read_only: bool) -> io::Result<Self> {
        let file = File::options().read(true).write(!is_read_only).open(path)?;
        if !file.metadata()?.is_file() {
            let text = "it is no regular file";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        if !is_read_only {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // A file system without locks: nothing can be known there.
                Ok(()) | Err(Errno::NOLCK | Errno::NOTSUP | Errno::NOSYS) => {}
                Err(Errno::WOULDBLOCK) => {
                    let text = "another program writes to it";
                    return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(Self {
            file,
            path: path.into(),
            is_read_only,
        })
    }

    /// The first data at or behind `offset`; `None` if there is only a hole.
    fn data_from(&self, offset: u64) -> io::Result<Option<u64>> {
        match seek(&self.file, SeekFrom::Data(offset)) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NXIO) => Ok(None),
            // A file system without holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Some(offset)),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Where the data that `offset` lies in ends.
    fn hole_from(&self, offset: u64) -> io::Result<u64> {
        match seek(&self.file, SeekFrom::Hole(offset)) {
            Ok(found) => Ok(found),
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NXIO) => Ok(u64::MAX),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Ranges of a range, and whether each is a hole, until `take` has enough.
    fn pieces(
        &self,
        range: Range<u64>,
        mut take: impl FnMut(Range<u64>, bool) -> Result<bool, BlockError>,
    ) -> Result<(), BlockError> {
        let mut at = range.start;
        while at < range.end {
            let data = self.data_from(at)?.unwrap_or(range.end).min(range.end);
            if data > at && !take(at..data, true)? {
                return Ok(());
            }
            if data >= range.end {
                return Ok(());
            }
            // Another process may punch a hole in between; if there is no progress, treat it as
            // data.
            let end = self.hole_from(data)?.clamp(data, range.end);
            let end = if end == data { range.end } else { end };
            if !take(data..end, false)? {
                return Ok(());
            }
            at = end;
        }
        Ok(())
    }

    fn change(&self, range: &Range<u64>, flags: FallocateFlags) -> io::Result<bool> {
        let length = range.end - range.start;
        match fallocate(&self.file, flags, range.start, length) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl BlockDevice for FileDisk {
    fn size(&self) -> u64 {
        // A file that is gone reads as an empty one, and its requests are refused.
        self.file.metadata().map_or(0, |metadata| metadata.len())
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn knows_fast_zero(&self) -> bool {
        true
    }

    fn description(&self) -> Option<String> {
        Some(self.path.display().to_string())
    }

    fn read(&self, offset: u64, length: usize, data: &mut ReadData) -> Result<(), BlockError> {
        let read = |data: &mut ReadData, offset: u64, length: usize| {
            data.push_filled(length, |buffer| self.file.read_exact_at(buffer, offset))
                .map_err(|error| BlockError::from(error).at(offset))
        };
        if length < HOLE_BYTES_MIN {
            return read(data, offset, length);
        }
        self.pieces(offset..offset + length as u64, |piece, is_hole| {
            let length = usize::try_from(piece.end - piece.start).expect("a part of the read");
            match is_hole {
                true => data.push_zeros(length),
                false => read(data, piece.start, length)?,
            }
            Ok(true)
        })
    }

    fn write(&self, offset: u64, bytes: &[u8], is_durable: bool) -> Result<(), BlockError> {
        self.file.write_all_at(bytes, offset)?;
        match is_durable {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&self) -> Result<(), BlockError> {
        Ok(self.file.sync_data()?)
    }

    fn trim(&self, range: Range<u64>) -> Result<(), BlockError> {
        // Where there are no holes, nothing is given back, which trims may do.
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        self.change(&range, flags)?;
        Ok(())
    }

    fn zero(&self, range: Range<u64>, mode: ZeroMode) -> Result<(), BlockError> {
        let flags = match mode.keeps_space {
            true => FallocateFlags::ZERO_RANGE,
            false => FallocateFlags::PUNCH_HOLE,
        };
        if self.change(&range, flags | FallocateFlags::KEEP_SIZE)? {
            return Ok(());
        }
        if mode.is_fast {
            let text = "the file system cannot zero ranges";
            return Err(BlockError::new(ErrorCode::NotSupported, text));
        }
        let mut at = range.start;
        while at < range.end {
            let piece = (range.end - at).min(ZEROS.len() as u64) as usize;
            self.file.write_all_at(&ZEROS[..piece], at)?;
            at += piece as u64;
        }
        Ok(())
    }

    fn cache(&self, range: Range<u64>) -> Result<(), BlockError> {
        let length = std::num::NonZeroU64::new(range.end - range.start);
        let advice = rustix::fs::Advice::WillNeed;
        rustix::fs::fadvise(&self.file, range.start, length, advice).map_err(io::Error::from)?;
        Ok(())
    }

    fn extents(
        &self,
        context: &str,
        range: Range<u64>,
        most: usize,
    ) -> Result<Vec<Extent>, BlockError> {
        if context != BASE_ALLOCATION {
            return Err(unknown_context(context));
        }
        let mut extents = Vec::new();
        self.pieces(range, |piece, is_hole| {
            let flags = match is_hole {
                true => allocation::HOLE | allocation::ZERO,
                false => 0,
            };
            let length = piece.end - piece.start;
            extents.push(Extent { length, flags });
            Ok(extents.len() < most)
        })?;
        Ok(extents)
    }
}
