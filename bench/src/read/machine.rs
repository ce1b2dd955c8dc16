//! The machine's own figures, and timing.

use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;

/// Forgets all file data that the kernel caches, so that the next read comes from the disk.
pub fn drop_caches() -> Result<()> {
    rustix::fs::sync();
    std::fs::write("/proc/sys/vm/drop_caches", "3").context("dropping caches needs root")
}

/// Seconds that `work` takes.
pub fn seconds<T>(work: impl FnOnce() -> Result<T>) -> Result<(f64, T)> {
    let start = Instant::now();
    let result = work()?;
    Ok((start.elapsed().as_secs_f64(), result))
}

/// A buffer for direct I/O: `size` bytes that begin at a page.
pub struct PageBuffer {
    bytes: Vec<u8>,
    start: usize,
    size: usize,
}

impl PageBuffer {
    /// A buffer of `size` bytes, touched.
    pub fn new(size: usize) -> Self {
        let bytes = vec![1; size + PAGE];
        let start = bytes.as_ptr().align_offset(PAGE);
        Self { bytes, start, size }
    }

    /// The bytes.
    pub fn get(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.size]
    }
}

/// The parts of a file that are stored, as far as its file system tells: holes read at the speed
/// of memory and say nothing about the device.
fn extents(file: &File) -> Vec<Range<u64>> {
    use rustix::fs::{SeekFrom, seek};
    let mut extents = Vec::new();
    let mut at = 0;
    while let Ok(start) = seek(file, SeekFrom::Data(at)) {
        let Ok(end) = seek(file, SeekFrom::Hole(start)) else {
            break;
        };
        extents.push(start.next_multiple_of(PAGE as u64)..end);
        at = end;
    }
    extents
}

/// MB/s of reading up to `limit` stored bytes of a file by 1 MiB requests past the page cache.
pub fn direct_read_rate(path: &Path, limit: u64) -> Result<f64> {
    let flags = i32::try_from(rustix::fs::OFlags::DIRECT.bits())?;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let extents = extents(&file);
    let mut buffer = PageBuffer::new(MIB);
    let start = Instant::now();
    let mut read = 0;
    for extent in extents {
        let mut at = extent.start;
        while at + MIB as u64 <= extent.end && read < limit {
            file.read_exact_at(buffer.get(), at)?;
            at += MIB as u64;
            read += MIB as u64;
        }
    }
    ensure!(read > 0, "{} has no stored megabyte", path.display());
    Ok(read as f64 / 1e6 / start.elapsed().as_secs_f64())
}

/// MB/s of reading up to `limit` bytes at the start of a file by 1 MiB requests.
pub fn read_rate_of(path: &Path, limit: u64) -> Result<f64> {
    let mut file = File::open(path)?.take(limit);
    read_through(&mut file)
}

/// MB/s of reading a whole file by 1 MiB requests.
pub fn read_rate(path: &Path) -> Result<f64> {
    read_through(&mut File::open(path)?)
}

fn read_through(file: &mut impl Read) -> Result<f64> {
    let mut buffer = PageBuffer::new(MIB);
    let start = Instant::now();
    let mut read = 0;
    loop {
        match file.read(buffer.get())? {
            0 => break,
            count => read += count,
        }
    }
    Ok(read as f64 / 1e6 / start.elapsed().as_secs_f64())
}

/// Thousands of 4 KiB reads a second at random places of the first `size` bytes of a file.
pub fn random_read_rate(path: &Path, size: u64, threads: u64, seconds: f64) -> Result<f64> {
    let start = Instant::now();
    let work = |thread: u64| -> Result<u64> {
        let file = File::open(path)?;
        let mut buffer = PageBuffer::new(PAGE);
        // A multiplicative generator is random enough to defeat read-ahead.
        let mut state = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(thread + 1) | 1;
        let mut reads = 0;
        while start.elapsed().as_secs_f64() < seconds {
            for _ in 0..64 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let page = (state >> 33) % (size / PAGE as u64);
                file.read_exact_at(buffer.get(), page * PAGE as u64)?;
            }
            reads += 64;
        }
        Ok(reads)
    };
    let counts = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|t| scope.spawn(move || work(t))).collect();
        let join = |h: std::thread::ScopedJoinHandle<'_, Result<u64>>| h.join().expect("no panic");
        handles.into_iter().map(join).collect::<Result<Vec<u64>>>()
    })?;
    Ok(counts.iter().sum::<u64>() as f64 / start.elapsed().as_secs_f64() / 1e3)
}
