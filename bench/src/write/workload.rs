//! What is done to every file system alike.

use anyhow::Result;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

const MIB: usize = 1 << 20;

/// MB/s of writing `data` to a new file by 1 MiB calls, to the end of `fsync`.
pub fn write(path: &Path, data: &[u8]) -> Result<f64> {
    let began = Instant::now();
    let mut file = File::create(path)?;
    for piece in data.chunks(MIB) {
        file.write_all(piece)?;
    }
    file.sync_all()?;
    Ok(data.len() as f64 / 1e6 / began.elapsed().as_secs_f64())
}

/// Numbers that look random and are the same each time.
pub struct Numbers(u64);

impl Numbers {
    /// A sequence by its seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Thousands of operations a second.
#[derive(Clone, Copy, Debug)]
pub struct FileRates {
    pub create: f64,
    /// With the time until all is on disk.
    pub create_synced: f64,
    pub remove: f64,
}

/// Waits until all of the file system with this open directory is on disk. The kernel tells FUSE
/// servers nothing of `syncfs`; for ours an `fsync` covers the whole pool.
pub fn sync(directory: &File) -> Result<()> {
    rustix::fs::syncfs(directory)?;
    Ok(directory.sync_all()?)
}

/// Makes `count` files of 1 to 10 KiB in a new directory, and removes them.
pub fn small_files(directory: &Path, count: u64, data: &[u8]) -> Result<FileRates> {
    std::fs::create_dir(directory)?;
    let mut numbers = Numbers::new(1);
    let began = Instant::now();
    for index in 0..count {
        let size = usize::try_from(1024 + numbers.below(9 << 10))?;
        let start = usize::try_from(numbers.below((data.len() - size) as u64))?;
        let mut file = File::create(directory.join(index.to_string()))?;
        file.write_all(&data[start..start + size])?;
    }
    let created = began.elapsed();
    let root = File::open(directory)?;
    sync(&root)?;
    let synced = began.elapsed();
    drop(root);
    let began = Instant::now();
    for index in 0..count {
        std::fs::remove_file(directory.join(index.to_string()))?;
    }
    let removed = began.elapsed();
    std::fs::remove_dir(directory)?;
    let rate = |time: std::time::Duration| count as f64 / 1e3 / time.as_secs_f64();
    Ok(FileRates {
        create: rate(created),
        create_synced: rate(synced),
        remove: rate(removed),
    })
}

/// Thousands of 4 KiB writes a second at random places of a file: as they are accepted, and with
/// the time until all are on disk.
pub fn overwrite(path: &Path, size: u64, count: u64, data: &[u8]) -> Result<(f64, f64)> {
    const PAGE: u64 = 4096;
    let file = File::options().write(true).open(path)?;
    let mut numbers = Numbers::new(2);
    let began = Instant::now();
    for _ in 0..count {
        let from = usize::try_from(numbers.below(data.len() as u64 / PAGE - 1) * PAGE)?;
        let piece = &data[from..from + PAGE as usize];
        file.write_all_at(piece, numbers.below(size / PAGE) * PAGE)?;
    }
    let accepted = began.elapsed();
    file.sync_all()?;
    let rate = |time: std::time::Duration| count as f64 / 1e3 / time.as_secs_f64();
    Ok((rate(accepted), rate(began.elapsed())))
}
