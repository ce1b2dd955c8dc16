//! An export of a server as a device.

use crate::core::Core;
use crate::error::NbdError;
use crate::location::Location;
use crate::negotiate::ask;
use crate::protocol::{command, command_flag, export_flag};
use cenote_base::rt::{self, Instant, Mutex, ranks};
use cenote_device::{Device, DeviceError, DeviceKind, Nature, Purpose};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long an answer to the question for the size holds.
const SIZE_AGE_MAX: Duration = Duration::from_secs(5);
/// How long that question may take.
const SIZE_TIME: Duration = Duration::from_secs(5);
/// Bytes of one trim, and of zeros, where lengths have 32 bits.
const TRIM_BYTES_MAX: u64 = 1 << 30;
/// Zeros that are sent at once where the server makes none.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
/// The largest block that writes are aligned for.
const BLOCK_MAX: u32 = 4096;

/// An export of a server.
#[derive(Debug)]
pub struct NbdDevice {
    core: Arc<Core>,
    path: PathBuf,
    is_writable: bool,
    size: AtomicU64,
    /// When the size was last asked for, and the answer.
    asked: Mutex<Option<(Instant, u64)>, ranks::NbdSizeAsked>,
    /// Held while a write of parts of blocks reads, changes and writes.
    unaligned: Mutex<(), ranks::NbdUnaligned>,
}

impl NbdDevice {
    /// Connects to the export that `path` names.
    ///
    /// # Errors
    /// It names none, the server is not there, or does not give it.
    pub fn open(path: &Path, is_writable: bool) -> Result<Self, NbdError> {
        let location = Location::parse(&path.to_string_lossy())?;
        Self::connect(location, path, is_writable)
    }

    /// Connects to the export at `location`, which is called `path`.
    ///
    /// # Errors
    /// The server is not there, or does not give it.
    pub fn connect(location: Location, path: &Path, is_writable: bool) -> Result<Self, NbdError> {
        let core = Core::open(location, &path.to_string_lossy())?;
        let own = Arc::clone(&core);
        // It ends by itself once the device is closed, and may be connecting then.
        let keeper = rt::spawn("nbd-keeper", move || own.keep());
        keeper.inspect_err(|_| core.close())?;
        let is_read_only = core.export.has(export_flag::READ_ONLY);
        Ok(Self {
            size: AtomicU64::new(core.export.size),
            is_writable: is_writable && !is_read_only,
            core,
            path: path.into(),
            asked: Mutex::new(None),
            unaligned: Mutex::new(()),
        })
    }

    /// The server's address and the export's name: the same for all names of one export.
    pub fn identity(&self) -> &str {
        &self.core.identity
    }

    /// Whether a flush has a meaning for the server. Without it nothing is known to be durable.
    pub fn can_flush(&self) -> bool {
        self.core.export.has(export_flag::SEND_FLUSH)
    }

    /// Whether this device writes to the export, or may still do so once the server is back.
    pub fn is_in_use(&self) -> bool {
        self.is_writable && !self.core.is_left() && !self.core.has_changed()
    }

    /// Lets another device have the export, which this one cannot use any more.
    pub fn give_way(&self) {
        if !self.core.is_left() {
            self.core.close();
        }
    }

    /// Fills a range with zeros, which take no space if the server can do so. They are durable
    /// when this returns.
    ///
    /// # Errors
    /// As of a write.
    pub fn zero(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.check_writable(offset, length)?;
        // What was written there and is not flushed would be sent again after the zeros.
        self.flush()?;
        let has = |flag| self.core.export.has(flag);
        let (before, after) = self.margins(offset, length as usize);
        let is_aligned = (before, after) == (0, 0);
        if !is_aligned || !has(export_flag::SEND_WRITE_ZEROES) || !has(export_flag::SEND_FUA) {
            let pieces = (offset..offset + length).step_by(ZEROS.len());
            for at in pieces {
                let piece = (offset + length - at).min(ZEROS.len() as u64) as usize;
                self.write_at(at, &ZEROS[..piece])?;
            }
            return self.flush();
        }
        let end = offset + length;
        for at in (offset..end).step_by(TRIM_BYTES_MAX as usize) {
            let piece = (end - at).min(TRIM_BYTES_MAX);
            let zeroed =
                self.core
                    .ask_with(command_flag::FUA, command::WRITE_ZEROES, (at, piece), None);
            zeroed.map_err(|source| DeviceError::Write {
                path: self.path.clone(),
                offset: at,
                length: piece,
                source,
            })?;
        }
        Ok(())
    }

    fn check(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        let size = self.size();
        match offset.checked_add(length) {
            Some(end) if end <= size => Ok(()),
            _ => Err(DeviceError::OutOfRange {
                path: self.path.clone(),
                offset,
                length,
                size,
            }),
        }
    }

    fn check_writable(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.check(offset, length)?;
        match self.is_writable {
            true => Ok(()),
            false => Err(DeviceError::ReadOnly {
                path: self.path.clone(),
            }),
        }
    }

    /// Bytes before the range and behind it, up to the borders of blocks.
    fn margins(&self, offset: u64, length: usize) -> (usize, usize) {
        let block = u64::from(self.core.export.minimum);
        let end = offset + length as u64;
        let before = (offset % block) as usize;
        let after = (end.next_multiple_of(block) - end) as usize;
        (before, after)
    }

    /// Reads whole blocks.
    fn read_blocks(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let most = self.core.export.maximum as usize;
        if length <= most {
            return self.core.ask(command::READ, offset, length as u64, None);
        }
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            let piece = most.min(length - bytes.len());
            let at = offset + bytes.len() as u64;
            bytes.extend(self.core.ask(command::READ, at, piece as u64, None)?);
        }
        Ok(bytes)
    }

    fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let (before, after) = self.margins(offset, length);
        let wide = self.read_blocks(offset - before as u64, before + length + after)?;
        Ok(match (before, after) {
            (0, 0) => wide,
            _ => wide[before..before + length].to_vec(),
        })
    }

    /// Writes bytes that begin and end on borders of blocks.
    fn write_blocks(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let most = self.core.export.maximum as usize;
        let mut at = offset;
        for piece in bytes.chunks(most) {
            self.core.write(at, piece.into())?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let (before, after) = self.margins(offset, bytes.len());
        if (before, after) == (0, 0) {
            return self.write_blocks(offset, bytes);
        }
        let _turn = self.unaligned.lock();
        let start = offset - before as u64;
        let mut wide = self.read_blocks(start, before + bytes.len() + after)?;
        wide[before..before + bytes.len()].copy_from_slice(bytes);
        self.write_blocks(start, &wide)
    }
}

impl Device for NbdDevice {
    fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    fn size_now(&self) -> u64 {
        let mut asked = self.asked.lock();
        if let Some((at, size)) = *asked
            && at.elapsed() < SIZE_AGE_MAX
        {
            return size.max(self.size());
        }
        // If the server does not answer, the size is taken to be unchanged.
        let export = ask(&self.core.location, Instant::now() + SIZE_TIME);
        let size = export.map_or(self.size(), |export| export.size);
        *asked = Some((Instant::now(), size));
        size.max(self.size())
    }

    fn grow(&self) {
        let size = self.size_now();
        if self.size.fetch_max(size, Ordering::AcqRel) < size {
            self.core.renew();
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        let bytes = self.read_vec(offset, buffer.len())?;
        buffer.copy_from_slice(&bytes);
        Ok(())
    }

    fn read_vec(&self, offset: u64, length: usize) -> Result<Vec<u8>, DeviceError> {
        rt::assert_io_allowed();
        self.check(offset, length as u64)?;
        if length == 0 {
            return Ok(Vec::new());
        }
        let read = self.read(offset, length);
        read.map_err(|source| DeviceError::Read {
            path: self.path.clone(),
            offset,
            length: length as u64,
            source,
        })
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        rt::assert_io_allowed();
        self.check_writable(offset, bytes.len() as u64)?;
        let written = match bytes.is_empty() {
            true => Ok(()),
            false => self.write(offset, bytes),
        };
        written.map_err(|source| DeviceError::Write {
            path: self.path.clone(),
            offset,
            length: bytes.len() as u64,
            source,
        })
    }

    fn write_vectored(
        &self,
        offset: u64,
        buffers: &[IoSlice<'_>],
        _: Purpose,
    ) -> Result<(), DeviceError> {
        match buffers {
            [one] => self.write_at(offset, one),
            many => {
                let bytes: Vec<u8> = many
                    .iter()
                    .flat_map(|buffer| buffer.iter().copied())
                    .collect();
                self.write_at(offset, &bytes)
            }
        }
    }

    fn flush(&self) -> Result<(), DeviceError> {
        rt::assert_io_allowed();
        self.core.flush().map_err(|source| DeviceError::Flush {
            path: self.path.clone(),
            source,
        })
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.check_writable(offset, length)?;
        if !self.can_discard() {
            return Ok(());
        }
        let block = u64::from(self.core.export.minimum);
        let end = (offset + length) / block * block;
        let mut at = offset.next_multiple_of(block);
        while at < end {
            let piece = (end - at).min(TRIM_BYTES_MAX);
            let trimmed = self.core.ask(command::TRIM, at, piece, None);
            trimmed.map_err(|source| DeviceError::Discard {
                path: self.path.clone(),
                offset: at,
                length: piece,
                source,
            })?;
            at += piece;
        }
        Ok(())
    }

    fn can_discard(&self) -> bool {
        self.core.export.has(export_flag::SEND_TRIM)
    }

    fn nature(&self) -> Nature {
        Nature {
            kind: DeviceKind::Block,
            logical_block_size: self.core.export.minimum.max(512),
            rotational: Some(self.core.export.has(export_flag::ROTATIONAL)),
        }
    }

    fn physical_block_size(&self) -> u32 {
        let logical = self.nature().logical_block_size;
        let most = BLOCK_MAX.max(logical);
        self.core.export.preferred.clamp(logical, most)
    }

    fn unlock(&self) {
        self.core.let_go();
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn is_writable(&self) -> bool {
        self.is_writable
    }
}

impl Drop for NbdDevice {
    fn drop(&mut self) {
        self.core.close();
    }
}
