//! Copy on write: what clients write goes to a file beside, and the device is left as it is.
//!
//! Blocks of 64 KiB are in the device until something is written to them; then they are in the
//! file. A map with two bits for each block says where: *below*, *being copied*, *own*. A write to
//! a part of a block first changes it from *below* to *being copied*, copies the rest, and makes it
//! *own*; other writes to it wait meanwhile. Reads of a block that is not *own* go to the device
//! below, which is correct: the write has not been acknowledged yet.
//!
//! ```text
//! 0                       size, rounded up to blocks    + 4096
//! | blocks of the device  | header: text, zeros         | map, a bit for each block
//! ```
//!
//! The file may be kept, and used again for the same device: it knows the device by its size and by
//! a checksum of its edges. A device that was written to meanwhile is treated as a different one,
//! as the copied blocks would not match the others. A flush makes the blocks durable first, and
//! then the map: after a crash a block is as of a flush or newer, or the device's.

use crate::device::{BlockDevice, BlockError, BlockSizes, Extent, ZeroMode, all_data};
use crate::read_data::ReadData;
use cenote_base::rt;
use cenote_codec::Endian;
use cenote_codec::checksum::fletcher4;
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bytes of a block.
const BLOCK: u64 = 64 << 10;
/// Bytes of the header.
const HEADER: u64 = 4096;
/// Bytes at the device's start and at its end by which it is recognized.
const EDGE: u64 = 1 << 20;
/// Larger devices would need a larger map than 64 MiB.
const SIZE_MAX: u64 = (64 << 20) * 4 * BLOCK;
/// Blocks in a word of the map.
const IN_WORD: u64 = 32;
/// How long a write waits until a block is copied that another one copies.
const COPY_POLL: Duration = Duration::from_micros(200);

/// Where a block is, as two bits.
const BELOW: u64 = 0;
const COPIED: u64 = 1;
const OWN: u64 = 2;

/// A device whose changes are kept beside it.
pub struct Overlay {
    inner: Arc<dyn BlockDevice>,
    file: File,
    size: u64,
    map: Vec<AtomicU64>,
    /// Whether the file outlives this.
    is_kept: bool,
    /// Whether clients only read.
    is_read_only: bool,
}

fn wrong(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text.into())
}

/// Says which device the changes belong to: its size, and a checksum of its edges, where labels,
/// partition tables and file systems' heads are.
fn header(inner: &dyn BlockDevice) -> io::Result<Vec<u8>> {
    let size = inner.size();
    let (edge, mut edges) = (EDGE.min(size), Vec::new());
    for offset in [0, size - edge] {
        let length = edge as usize;
        let mut data = ReadData::default();
        data.begin(length);
        let read = inner.read(offset, length, &mut data);
        read.map_err(|error| io::Error::other(error.text))?;
        edges.extend(data.to_vec());
    }
    let [a, b, c, d] = fletcher4(&edges, Endian::Little);
    let text =
        format!("cenote overlay 2\nsize {size}\nblock {BLOCK}\nedges {a:x} {b:x} {c:x} {d:x}\n");
    let mut bytes = text.into_bytes();
    bytes.resize(HEADER as usize, 0);
    Ok(bytes)
}

impl Overlay {
    /// Keeps changes in a file that ends with this process.
    ///
    /// # Errors
    /// There is no room for files in the directory for temporary ones.
    pub fn temporary(inner: Arc<dyn BlockDevice>) -> io::Result<Self> {
        let directory = std::env::temp_dir();
        let flags = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR;
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let file = File::from(rustix::fs::open(&directory, flags, mode)?);
        let mut overlay = Self::begin(inner, file)?;
        overlay.is_kept = false;
        Ok(overlay)
    }

    /// Keeps changes in a file, which is made, or has those of a time before.
    ///
    /// # Errors
    /// It cannot be used, or belongs to another device.
    pub fn open(inner: Arc<dyn BlockDevice>, path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(false);
        let file = file.open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(io::Error::new(
                    io::ErrorKind::ResourceBusy,
                    "another program uses it",
                ));
            }
            Err(errno) => return Err(errno.into()),
        }
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(wrong("it is no regular file"));
        }
        if metadata.len() == 0 {
            return Self::begin(inner, file);
        }
        let size = inner.size();
        let mut found = vec![0; HEADER as usize];
        let read = file.read_exact_at(&mut found, size.next_multiple_of(BLOCK));
        if read.is_err() || found != header(&*inner)? {
            return Err(wrong(format!(
                "it holds no changes of this device of {size} bytes, or the device was written to \
                 since; name another file, or remove this one"
            )));
        }
        let overlay = Self::over(inner, file)?;
        let mut bits = vec![0; overlay.bits_length()];
        overlay
            .file
            .read_exact_at(&mut bits, overlay.bits_offset())?;
        for block in 0..overlay.blocks() {
            if bits[(block / 8) as usize] >> (block % 8) & 1 == 1 {
                overlay.set(block, OWN);
            }
        }
        Ok(overlay)
    }

    /// The same for reading only.
    #[must_use]
    pub fn read_only(self) -> Self {
        Self {
            is_read_only: true,
            ..self
        }
    }

    fn begin(inner: Arc<dyn BlockDevice>, file: File) -> io::Result<Self> {
        let overlay = Self::over(inner, file)?;
        let (at, length) = (overlay.bits_offset(), overlay.bits_length() as u64);
        overlay.file.set_len(at + length)?;
        let header = header(&*overlay.inner)?;
        overlay.file.write_all_at(&header, at - HEADER)?;
        Ok(overlay)
    }

    fn over(inner: Arc<dyn BlockDevice>, file: File) -> io::Result<Self> {
        let size = inner.size();
        if size > SIZE_MAX {
            return Err(wrong(format!(
                "the device has {size} bytes; changes are kept of {SIZE_MAX} at most"
            )));
        }
        let words = size.div_ceil(BLOCK).div_ceil(IN_WORD);
        Ok(Self {
            inner,
            file,
            size,
            map: (0..words).map(|_| AtomicU64::new(0)).collect(),
            is_kept: true,
            is_read_only: false,
        })
    }

    fn blocks(&self) -> u64 {
        self.size.div_ceil(BLOCK)
    }

    fn bits_offset(&self) -> u64 {
        self.size.next_multiple_of(BLOCK) + HEADER
    }

    fn bits_length(&self) -> usize {
        self.blocks().div_ceil(8) as usize
    }

    fn place(&self, block: u64) -> (&AtomicU64, u32) {
        let word = &self.map[(block / IN_WORD) as usize];
        (word, (block % IN_WORD * 2) as u32)
    }

    fn state(&self, block: u64) -> u64 {
        let (word, shift) = self.place(block);
        word.load(Ordering::Acquire) >> shift & 3
    }

    fn set(&self, block: u64, state: u64) {
        let (word, shift) = self.place(block);
        let change = |word: u64| Some(word & !(3 << shift) | state << shift);
        let _ = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, change);
    }

    /// Takes a block from below, if it is there; `false` if it is own already.
    fn take(&self, block: u64) -> bool {
        let (word, shift) = self.place(block);
        loop {
            let before = word.load(Ordering::Acquire);
            match before >> shift & 3 {
                OWN => return false,
                COPIED => rt::sleep(COPY_POLL),
                _ => {
                    let after = before | COPIED << shift;
                    let order = (Ordering::AcqRel, Ordering::Acquire);
                    let taken = word.compare_exchange(before, after, order.0, order.1);
                    if taken.is_ok() {
                        return true;
                    }
                }
            }
        }
    }

    fn range_of(&self, block: u64) -> Range<u64> {
        block * BLOCK..((block + 1) * BLOCK).min(self.size)
    }

    /// Pieces of a range, none beyond a block, each with its block.
    fn pieces(range: Range<u64>) -> impl Iterator<Item = (u64, Range<u64>)> {
        let blocks = range.start / BLOCK..range.end.div_ceil(BLOCK);
        blocks.map(move |block| {
            let start = range.start.max(block * BLOCK);
            (block, start..range.end.min((block + 1) * BLOCK))
        })
    }

    /// Changes a part of one block by `act`.
    fn change(
        &self,
        block: u64,
        part: &Range<u64>,
        act: impl FnOnce() -> io::Result<()>,
    ) -> Result<(), BlockError> {
        let is_first = self.take(block);
        let whole = self.range_of(block);
        let result = match is_first && *part != whole {
            true => self.copy(&whole).and_then(|()| Ok(act()?)),
            false => act().map_err(BlockError::from),
        };
        if is_first {
            // What failed leaves the block as it was.
            self.set(block, if result.is_ok() { OWN } else { BELOW });
        }
        result
    }

    fn copy(&self, whole: &Range<u64>) -> Result<(), BlockError> {
        let length = (whole.end - whole.start) as usize;
        let mut data = ReadData::default();
        data.begin(length);
        self.inner.read(whole.start, length, &mut data)?;
        self.file.write_all_at(&data.to_vec(), whole.start)?;
        Ok(())
    }

    fn punch(&self, range: &Range<u64>) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let length = range.end - range.start;
        if fallocate(&self.file, flags, range.start, length).is_ok() {
            return Ok(());
        }
        self.file
            .write_all_at(&vec![0; length as usize], range.start)
    }
}

impl BlockDevice for Overlay {
    fn size(&self) -> u64 {
        self.size
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn block_sizes(&self) -> BlockSizes {
        self.inner.block_sizes()
    }

    fn is_rotational(&self) -> bool {
        self.inner.is_rotational()
    }

    fn description(&self) -> Option<String> {
        self.inner.description()
    }

    fn read(&self, offset: u64, length: usize, data: &mut ReadData) -> Result<(), BlockError> {
        let mut at = offset;
        let end = offset + length as u64;
        while at < end {
            // Neighbours that are in the same place are read at once.
            let is_own = self.state(at / BLOCK) == OWN;
            let mut next = (at / BLOCK + 1) * BLOCK;
            while next < end && (self.state(next / BLOCK) == OWN) == is_own {
                next += BLOCK;
            }
            let piece = (next.min(end) - at) as usize;
            match is_own {
                true => data.push_filled(piece, |buffer| self.file.read_exact_at(buffer, at))?,
                false => self.inner.read(at, piece, data)?,
            }
            at += piece as u64;
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8], is_durable: bool) -> Result<(), BlockError> {
        for (block, part) in Self::pieces(offset..offset + bytes.len() as u64) {
            let from = (part.start - offset) as usize..(part.end - offset) as usize;
            self.change(block, &part, || {
                self.file.write_all_at(&bytes[from], part.start)
            })?;
        }
        match is_durable {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&self) -> Result<(), BlockError> {
        if !self.is_kept {
            return Ok(());
        }
        // Blocks that become own after this are in the map of a later flush.
        let mut bits = vec![0_u8; self.bits_length()];
        for block in 0..self.blocks() {
            let is_own = self.state(block) == OWN;
            bits[(block / 8) as usize] |= u8::from(is_own) << (block % 8);
        }
        self.file.sync_data()?;
        self.file.write_all_at(&bits, self.bits_offset())?;
        Ok(self.file.sync_data()?)
    }

    fn trim(&self, range: Range<u64>) -> Result<(), BlockError> {
        for (block, part) in Self::pieces(range) {
            if part == self.range_of(block) {
                self.change(block, &part, || self.punch(&part))?;
            }
        }
        Ok(())
    }

    fn zero(&self, range: Range<u64>, _mode: ZeroMode) -> Result<(), BlockError> {
        for (block, part) in Self::pieces(range) {
            self.change(block, &part, || self.punch(&part))?;
        }
        Ok(())
    }

    fn extents(
        &self,
        context: &str,
        range: Range<u64>,
        most: usize,
    ) -> Result<Vec<Extent>, BlockError> {
        let is_own = self.state(range.start / BLOCK) == OWN;
        let mut end = (range.start / BLOCK + 1) * BLOCK;
        while end < range.end && (self.state(end / BLOCK) == OWN) == is_own {
            end += BLOCK;
        }
        let alike = range.start..end.min(range.end);
        match is_own {
            true => all_data(context, alike),
            false => self.inner.extents(context, alike, most),
        }
    }
}
