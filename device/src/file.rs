//! Regular files and block devices.
//!
//! Direct I/O is tried first: the pool has its own cache, so the kernel's would hold every
//! block twice. Some file systems refuse it at open, some only at the first transfer; both
//! times the device falls back to buffered I/O for good. Direct transfers of any alignment are
//! widened to 4 KiB borders through an [`AlignedBuf`]; one that is aligned already goes straight
//! to the caller's memory. What the kernel's cache happens to hold already is taken from there.

use crate::buffer::{AlignedBuf, DIRECT_ALIGNMENT};
use crate::lead::{self, Identity, Settling};
use crate::nature::{check_range, total_length};
use crate::{Device, DeviceError, DeviceKind, Lead, Nature, Purpose, file_lock, page_cache};
use cenote_base::rt::{self, Mutex, ranks};
use rustix::buffer::spare_capacity;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, FallocateFlags, OFlags, StatxFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes per bounced transfer: large enough for a disk, small enough to stay in a CPU cache.
const BOUNCE_BYTES: usize = 1 << 20;

/// What the system says to a direct transfer that it does not support.
const INVALID: i32 = Errno::INVAL.raw_os_error();
/// The error for an exclusive claim on a block device that another program holds.
const BUSY: i32 = Errno::BUSY.raw_os_error();

/// How to open a file or block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// Open for writing too.
    pub writable: bool,
    /// Try direct I/O first.
    pub direct: bool,
}

impl Default for FileOptions {
    /// Read-only, direct where possible.
    fn default() -> Self {
        Self {
            writable: false,
            direct: true,
        }
    }
}

/// A regular file or a block device.
#[derive(Debug)]
pub struct FileDevice {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    /// What the name led to when it was opened.
    identity: Identity,
    settling: Settling,
    size: AtomicU64,
    nature: Nature,
    pub(crate) writable: bool,
    direct: AtomicBool,
    /// The same file without direct I/O, for ranges that the kernel caches anyway.
    buffered: Option<File>,
    /// Whether the kernel answers what it caches.
    asks_cache: AtomicBool,
    pub(crate) alignment: Alignment,
    /// The exclusive claim on the block device. It has a handle of its own, so that it can end
    /// before the last read or write of the other handles.
    claim: Mutex<Option<File>, ranks::DeviceClaim>,
    /// Held while a write that does not begin and end on 4 KiB borders reads, changes and writes.
    pub(crate) unaligned_write: Mutex<(), ranks::DeviceUnaligned>,
}

/// Repeats a system call that a signal interrupted.
fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Claims a block device.
fn claim(path: &Path) -> Result<File, DeviceError> {
    let flags = OFlags::CLOEXEC | OFlags::EXCL;
    let flags = i32::try_from(flags.bits()).expect("open flags are small");
    let claimed = File::options().read(true).custom_flags(flags).open(path);
    let path = path.into();
    claimed.map_err(|source| match source.raw_os_error() {
        Some(BUSY) => DeviceError::InUse { path },
        _ => DeviceError::Open { path, source },
    })
}

/// Opens a file, directly if that is wanted and possible.
fn open_file(path: &Path, options: FileOptions) -> std::io::Result<(File, bool)> {
    let open = |direct: bool| {
        let mut flags = OFlags::CLOEXEC;
        if direct {
            flags |= OFlags::DIRECT;
        }
        let flags = i32::try_from(flags.bits()).expect("open flags are small");
        let mut open = File::options();
        open.read(true).write(options.writable).custom_flags(flags);
        open.open(path)
    };
    if options.direct {
        match open(true) {
            Err(error) if error.raw_os_error() == Some(INVALID) => {}
            result => return result.map(|file| (file, true)),
        }
    }
    open(false).map(|file| (file, false))
}

/// Opens for reading what the kernel caches and no more: without read-ahead.
fn open_unadvised(path: &Path, identity: &Identity) -> Option<File> {
    let file = File::open(path).ok()?;
    is_of(&file, identity).then_some(())?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).ok()?;
    Some(file)
}

/// Whether a second handle is of the same device: names may change between two openings.
fn is_of(file: &File, identity: &Identity) -> bool {
    let metadata = file.metadata().ok();
    metadata
        .and_then(|metadata| Identity::of(&metadata))
        .as_ref()
        == Some(identity)
}

/// Bytes of a file or block device, which may have grown since it was opened.
fn end(mut file: &File) -> std::io::Result<u64> {
    // No read or write uses the position that this leaves behind.
    file.seek(SeekFrom::End(0))
}

/// Whether the kernel says that the block device `device_number` has moving parts.
fn is_rotational(device_number: u64) -> Option<bool> {
    Some(queue_attribute(device_number, "rotational")? == "1")
}

/// What the kernel says of the queue of a block device.
fn queue_attribute(device_number: u64, name: &str) -> Option<String> {
    let major = rustix::fs::major(device_number);
    let minor = rustix::fs::minor(device_number);
    // A partition has no queue of its own, its parent directory is the disk.
    ["queue", "../queue"].iter().find_map(|queue| {
        let path = format!("/sys/dev/block/{major}:{minor}/{queue}/{name}");
        let text = std::fs::read_to_string(path).ok()?;
        Some(text.trim().to_owned())
    })
}

impl FileDevice {
    /// Opens a regular file or block device; anything else is refused before it is touched.
    pub fn open(path: &Path, options: FileOptions) -> Result<Self, DeviceError> {
        let fail = |source| DeviceError::Open {
            path: path.into(),
            source,
        };
        let not_a_device = || DeviceError::NotADevice { path: path.into() };
        // Opening a pipe or a tape would wait, or do something.
        let named = Identity::of(&std::fs::metadata(path).map_err(fail)?);
        let named = named.ok_or_else(not_a_device)?;
        let is_block = matches!(named, Identity::Block { .. });
        let claims = options.writable && is_block;
        let claim = claims.then(|| claim(path)).transpose()?;
        let (file, direct) = open_file(path, options).map_err(fail)?;
        if options.writable {
            file_lock::lock(&file, path)?;
        }
        let metadata = file.metadata().map_err(fail)?;
        let identity = Identity::of(&metadata).ok_or_else(not_a_device)?;
        let is_one = claim.as_ref().is_none_or(|claim| is_of(claim, &identity));
        if identity != named || !is_one {
            let source = std::io::Error::other("the name led to another device meanwhile");
            return Err(fail(source));
        }
        let size = end(&file).map_err(fail)?;
        let nature = if is_block {
            let logical = rustix::fs::ioctl_blksszget(&file).unwrap_or(512);
            Nature {
                kind: DeviceKind::Block,
                logical_block_size: logical,
                rotational: is_rotational(metadata.rdev()),
            }
        } else {
            Nature {
                kind: DeviceKind::File,
                logical_block_size: 512,
                rotational: is_rotational(metadata.dev()),
            }
        };
        // A block device may be shared with another host, whose writes our kernel's cache would
        // hide; a file changes through this kernel only.
        let buffered = match direct && !is_block {
            true => open_unadvised(path, &identity),
            false => None,
        };
        Ok(Self {
            path: path.into(),
            asks_cache: AtomicBool::new(buffered.is_some()),
            buffered,
            alignment: Alignment::of(&file),
            claim: Mutex::new(claim),
            file,
            identity,
            settling: Settling::new(),
            size: AtomicU64::new(size),
            nature,
            writable: options.writable,
            direct: AtomicBool::new(direct),
            unaligned_write: Mutex::new(()),
        })
    }

    /// Whether transfers bypass the kernel's cache.
    pub fn is_direct(&self) -> bool {
        self.direct.load(Ordering::Relaxed)
    }

    fn read_error(&self, offset: u64, length: usize, errno: Errno) -> DeviceError {
        DeviceError::Read {
            path: self.path.clone(),
            offset,
            length: length as u64,
            source: errno.into(),
        }
    }

    /// Gives up direct I/O for good when `errno` says that the file system refuses it.
    pub(crate) fn fall_back(&self, errno: Errno) -> bool {
        if errno != Errno::INVAL || !self.is_direct() {
            return false;
        }
        let Ok(flags) = rustix::fs::fcntl_getfl(&self.file) else {
            return false;
        };
        if rustix::fs::fcntl_setfl(&self.file, flags - OFlags::DIRECT).is_err() {
            return false;
        }
        self.direct.store(false, Ordering::Relaxed);
        true
    }

    /// Reads until `buffer` is full or the file ends; says how many bytes it got.
    pub(crate) fn read_some(&self, offset: u64, buffer: &mut [u8]) -> rustix::io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            let position = offset + done as u64;
            let result = retry(|| rustix::io::pread(&self.file, &mut buffer[done..], position));
            match result {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(errno) if self.fall_back(errno) => {}
                Err(errno) => return Err(errno),
            }
            // A direct transfer that stopped off the border met the end of the file.
            if self.is_direct() && done % DIRECT_ALIGNMENT != 0 {
                break;
            }
        }
        Ok(done)
    }

    fn read_exact(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        let wanted = buffer.len();
        match self.read_some(offset, buffer) {
            Ok(got) if got == wanted => Ok(()),
            Ok(got) => Err(self.short(offset, wanted, got)),
            Err(errno) => Err(self.read_error(offset, wanted, errno)),
        }
    }

    pub(crate) fn short(&self, offset: u64, wanted: usize, got: usize) -> DeviceError {
        DeviceError::ShortRead {
            path: self.path.clone(),
            offset,
            wanted: wanted as u64,
            got: got as u64,
        }
    }

    /// The file to read `[offset, offset + length)` from by way of the kernel's cache: always
    /// without direct I/O, and with it when the range is there already.
    fn cached_file(&self, offset: u64, length: usize) -> Option<&File> {
        if !self.is_direct() {
            return Some(&self.file);
        }
        let buffered = self.buffered.as_ref()?;
        if !self.asks_cache.load(Ordering::Relaxed) {
            return None;
        }
        let cached = page_cache::is_cached(buffered.as_fd(), offset, length as u64);
        if cached.is_none() {
            self.asks_cache.store(false, Ordering::Relaxed);
        }
        cached.unwrap_or(false).then_some(buffered)
    }

    /// Reads `length` bytes piece by piece through aligned buffers and hands each to `take`.
    fn read_bounced(
        &self,
        offset: u64,
        length: usize,
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), DeviceError> {
        let alignment = DIRECT_ALIGNMENT as u64;
        let mut done = 0;
        while done < length {
            let position = offset + done as u64;
            let skip = (position % alignment) as usize;
            let piece = (length - done).min(BOUNCE_BYTES - skip);
            let wide = (skip + piece).next_multiple_of(DIRECT_ALIGNMENT);
            let mut buffer = AlignedBuf::take(wide);
            let got = self
                .read_some(position - skip as u64, &mut buffer)
                .map_err(|errno| self.read_error(position, piece, errno))?;
            if got < skip + piece {
                return Err(self.short(position, piece, got.saturating_sub(skip)));
            }
            take(&buffer[skip..skip + piece]);
            done += piece;
        }
        Ok(())
    }

    /// Whether direct I/O goes between `offset` and this memory without a copy.
    pub(crate) fn takes_directly(&self, offset: u64, bytes: &[u8]) -> bool {
        let Alignment {
            offset: border,
            memory,
        } = self.alignment;
        offset.is_multiple_of(border)
            && (bytes.len() as u64).is_multiple_of(border)
            && (bytes.as_ptr().addr() as u64).is_multiple_of(memory)
    }

    /// Whether direct I/O goes between `offset` and all these pieces of memory, one after the
    /// other, without a copy.
    pub(crate) fn takes_all_directly<'a>(
        &self,
        offset: u64,
        mut pieces: impl Iterator<Item = &'a [u8]>,
    ) -> bool {
        offset.is_multiple_of(self.alignment.offset)
            && pieces.all(|piece| self.takes_directly(0, piece))
    }
}

fn is_aligned(offset: u64, bytes: &[u8]) -> bool {
    offset.is_multiple_of(DIRECT_ALIGNMENT as u64)
        && bytes.len().is_multiple_of(DIRECT_ALIGNMENT)
        && bytes.as_ptr().align_offset(DIRECT_ALIGNMENT) == 0
}

/// The borders in a file and in memory that a direct read must keep, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alignment {
    pub(crate) offset: u64,
    memory: u64,
}

impl Alignment {
    /// What the kernel says (Linux 6.1, and file systems that care), else what always does.
    fn of(file: &File) -> Self {
        let always = DIRECT_ALIGNMENT as u64;
        let (flags, mask) = (AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
        let said = rustix::fs::statx(file, c"", flags, mask).ok();
        let said = said.filter(|statx| statx.stx_mask & mask.bits() != 0);
        let usable = |border: u32| match u64::from(border) {
            border if border.is_power_of_two() && border <= always => border,
            _ => always,
        };
        Self {
            offset: said.map_or(always, |statx| usable(statx.stx_dio_offset_align)),
            memory: said.map_or(always, |statx| usable(statx.stx_dio_mem_align)),
        }
    }
}

impl Device for FileDevice {
    fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    fn size_now(&self) -> u64 {
        end(&self.file).unwrap_or_else(|_| self.size())
    }

    fn grow(&self) {
        self.size.fetch_max(self.size_now(), Ordering::Relaxed);
    }

    fn unlock(&self) {
        if self.writable {
            file_lock::unlock(&self.file);
        }
        let mut claim = self.claim.lock();
        *claim = None;
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        rt::assert_io_allowed();
        check_range(&self.path, self.size(), offset, buffer.len() as u64)?;
        if self.is_direct()
            && let Some(file) = self.cached_file(offset, buffer.len())
            && file.read_exact_at(buffer, offset).is_ok()
        {
            return Ok(());
        }
        if !self.is_direct() || is_aligned(offset, buffer) {
            return self.read_exact(offset, buffer);
        }
        let mut done = 0;
        self.read_bounced(offset, buffer.len(), |piece| {
            buffer[done..done + piece.len()].copy_from_slice(piece);
            done += piece.len();
        })
    }

    fn read_vec(&self, offset: u64, length: usize) -> Result<Vec<u8>, DeviceError> {
        rt::assert_io_allowed();
        check_range(&self.path, self.size(), offset, length as u64)?;
        let mut bytes = Vec::with_capacity(length);
        let Some(file) = self.cached_file(offset, length) else {
            self.read_bounced(offset, length, |piece| bytes.extend_from_slice(piece))?;
            return Ok(bytes);
        };
        while bytes.len() < length {
            let position = offset + bytes.len() as u64;
            match retry(|| rustix::io::pread(file, spare_capacity(&mut bytes), position)) {
                Ok(0) => return Err(self.short(offset, length, bytes.len())),
                Ok(_) => {}
                Err(errno) => return Err(self.read_error(offset, length, errno)),
            }
        }
        // The allocator may have given more capacity than was asked for.
        bytes.truncate(length);
        Ok(bytes)
    }

    fn read_vectored(
        &self,
        offset: u64,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Result<(), DeviceError> {
        rt::assert_io_allowed();
        let length = total_length(buffers);
        check_range(&self.path, self.size(), offset, length)?;
        let cached = match usize::try_from(length) {
            Ok(length) => self.cached_file(offset, length),
            Err(_) => None,
        };
        let is_direct = self.takes_all_directly(offset, buffers.iter().map(|buffer| &buffer[..]));
        let file = cached.or(is_direct.then_some(&self.file));
        let got = match file {
            Some(file) => retry(|| rustix::io::preadv(file, buffers, offset)).unwrap_or(0),
            None => 0,
        };
        // What did not come at once comes in pieces, and an error says where.
        let mut start = 0;
        for buffer in buffers {
            let have = got.saturating_sub(start).min(buffer.len());
            if have < buffer.len() {
                self.read_at(offset + start as u64, buffer)?;
            }
            start += buffer.len();
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        rt::assert_io_allowed();
        self.write_bytes(offset, bytes)
    }

    fn write_vectored(
        &self,
        offset: u64,
        buffers: &[IoSlice<'_>],
        _: Purpose,
    ) -> Result<(), DeviceError> {
        rt::assert_io_allowed();
        self.write_buffers(offset, buffers)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        rt::assert_io_allowed();
        self.check_writable(0, 0)?;
        self.file.sync_data().map_err(|source| DeviceError::Flush {
            path: self.path.clone(),
            source,
        })
    }

    fn can_discard(&self) -> bool {
        if self.nature.kind != DeviceKind::Block {
            return true;
        }
        let number = self.file.metadata().map(|metadata| metadata.rdev());
        let limit = number
            .ok()
            .and_then(|number| queue_attribute(number, "discard_max_bytes"));
        limit.is_some_and(|limit| limit != "0")
    }

    /// Punches a hole. A file system or device that cannot is left alone without an error.
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.check_writable(offset, length)?;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match retry(|| rustix::fs::fallocate(&self.file, flags, offset, length)) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(errno) => Err(DeviceError::Discard {
                path: self.path.clone(),
                offset,
                length,
                source: errno.into(),
            }),
        }
    }

    fn nature(&self) -> Nature {
        self.nature
    }

    fn physical_block_size(&self) -> u32 {
        let logical = self.nature.logical_block_size;
        if self.nature.kind != DeviceKind::Block {
            return logical;
        }
        let physical = rustix::fs::ioctl_blkpbszget(&self.file);
        physical.map_or(logical, |physical| physical.max(logical))
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn lead(&self) -> Lead {
        let lead = lead::look(&self.path, &self.file, &self.identity);
        match self.identity {
            Identity::File { .. } => lead,
            Identity::Block { .. } => self.settling.judge(lead),
        }
    }

    fn is_writable(&self) -> bool {
        self.writable
    }
}

// While a process is forked elsewhere in this one, its copy of the file would keep the lock.
impl Drop for FileDevice {
    fn drop(&mut self) {
        self.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BlockBuffer;

    fn pattern(length: usize) -> Vec<u8> {
        (0..length).map(|i| (i % 251) as u8).collect()
    }

    fn file_with(bytes: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), bytes).expect("writable");
        file
    }

    /// The file opened writable in each way: direct with and without the kernel's cache, buffered.
    /// One after the other, since an open one is locked.
    fn all_ways(path: &Path) -> impl Iterator<Item = FileDevice> {
        (0..3).map(move |way| {
            let options = FileOptions {
                writable: true,
                direct: way < 2,
            };
            let device = FileDevice::open(path, options).expect("a file without a writer");
            if way == 1 {
                device.asks_cache.store(false, Ordering::Relaxed);
            }
            device
        })
    }

    #[test]
    fn reads_of_any_alignment_agree() {
        // 3 MiB and a tail that is no multiple of any block size.
        let bytes = pattern((3 << 20) + 777);
        let file = file_with(&bytes);
        for device in all_ways(file.path()) {
            assert_eq!(device.size(), bytes.len() as u64);
            let size = bytes.len();
            let ranges = [
                (0, size),
                (1, 1),
                (511, 4097),
                (4096, 8192),
                (5, 2 << 20),
                (size - 3, 3),
            ];
            for (offset, length) in ranges {
                let expected = &bytes[offset..offset + length];
                let got = device.read_vec(offset as u64, length).expect("in range");
                assert!(got == expected, "read_vec {offset} {length}");
                let mut buffer = vec![0; length];
                device
                    .read_at(offset as u64, &mut buffer)
                    .expect("in range");
                assert!(buffer == expected, "read_at {offset} {length}");
            }
            assert!(device.read_vec(size as u64 - 1, 2).is_err());
            assert!(device.read_vec(u64::MAX, 2).is_err());
            for (offset, lengths) in [
                (0, [131_072, 65_536, 1 << 20]),
                (512, [131_072, 512, 20_480]),
                (4096, [4096, 20_001, 77]),
                (3, [1, 50_000, 131_072]),
            ] {
                let mut buffers = lengths.map(BlockBuffer::take);
                let mut slices = buffers.each_mut().map(|buffer| IoSliceMut::new(buffer));
                let read = device.read_vectored(offset as u64, &mut slices);
                read.expect("in range");
                let end = offset + lengths.iter().sum::<usize>();
                assert!(buffers.map(Vec::from).concat() == bytes[offset..end]);
            }
            let mut four = [0; 4];
            let mut slices = [IoSliceMut::new(&mut four)];
            assert!(device.read_vectored(size as u64 - 3, &mut slices).is_err());
        }
    }

    /// Regression: a check of the offset alone used an empty slice, whose address is not aligned.
    /// So no I/O ever went in one request.
    #[test]
    fn aligned_pieces_go_in_one_request() {
        let file = file_with(&pattern(1 << 20));
        for device in all_ways(file.path()) {
            let buffers = [131_072, 65_536].map(BlockBuffer::take);
            let pieces = || buffers.iter().map(|buffer| &buffer[..]);
            assert!(device.takes_all_directly(0, pieces()));
            assert!(device.takes_all_directly(8192, pieces()));
            assert!(!device.takes_all_directly(1, pieces()));
            let cut = pieces().map(|piece| &piece[1..]);
            assert!(!device.takes_all_directly(0, cut));
        }
    }

    #[test]
    fn writes_of_any_alignment_change_nothing_else() {
        let mut bytes = pattern((2 << 20) + 100);
        let file = file_with(&bytes);
        for device in all_ways(file.path()) {
            for (offset, length) in [
                (0, 1),
                (4095, 2),
                (4096, 4096),
                (3, 1_500_000),
                (bytes.len() - 1, 1),
            ] {
                let new: Vec<u8> = (0..length).map(|i| (i % 13 + offset % 7) as u8).collect();
                device.write_at(offset as u64, &new).expect("writable");
                bytes[offset..offset + length].copy_from_slice(&new);
            }
            device.flush().expect("a file flushes");
            let got = device.read_vec(0, bytes.len()).expect("in range");
            assert!(got == bytes, "{device:?}");
            assert_eq!(
                std::fs::metadata(file.path()).expect("there").len(),
                bytes.len() as u64
            );
        }
    }

    #[test]
    fn a_file_that_shrinks_gives_a_named_error() {
        let file = file_with(&pattern(100_000));
        let device = FileDevice::open(file.path(), FileOptions::default()).expect("a file");
        file.as_file().set_len(50_000).expect("truncates");
        match device.read_vec(40_000, 20_000) {
            Err(DeviceError::ShortRead { got, .. }) => assert_eq!(got, 10_000),
            other => panic!("not a short read: {other:?}"),
        }
    }

    #[test]
    fn what_is_no_device_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let refused = FileDevice::open(directory.path(), FileOptions::default());
        assert!(matches!(refused, Err(DeviceError::NotADevice { .. })));
        let gone = FileDevice::open(&directory.path().join("gone"), FileOptions::default());
        assert!(matches!(gone, Err(DeviceError::Open { .. })));
        let file = file_with(b"x");
        let device = FileDevice::open(file.path(), FileOptions::default()).expect("a file");
        assert!(matches!(
            device.write_at(0, b"y"),
            Err(DeviceError::ReadOnly { .. })
        ));
    }
}
