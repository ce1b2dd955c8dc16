//! The disk's own figure, and CPU time.

use anyhow::Result;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;

/// CPU seconds that this process has used, in the kernel too.
pub fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// MB/s of writing `mebibytes` to a file that has its space already, past the page cache, with a
/// flush at the end.
pub fn direct_write_rate(path: &Path, mebibytes: usize) -> Result<f64> {
    fill(path, mebibytes)?;
    let flags = i32::try_from(rustix::fs::OFlags::DIRECT.bits())?;
    let file = File::options().write(true).custom_flags(flags).open(path)?;
    let bytes = vec![7; MIB + PAGE];
    let start = bytes.as_ptr().align_offset(PAGE);
    let began = Instant::now();
    for index in 0..mebibytes {
        file.write_all_at(&bytes[start..start + MIB], (index * MIB) as u64)?;
    }
    file.sync_data()?;
    Ok((mebibytes * MIB) as f64 / 1e6 / began.elapsed().as_secs_f64())
}

/// Gives a file `mebibytes` of written space, unless it has that size already.
pub fn fill(path: &Path, mebibytes: usize) -> Result<()> {
    let size = (mebibytes * MIB) as u64;
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.len() == size) {
        return Ok(());
    }
    let file = File::create(path)?;
    let bytes = vec![1; MIB];
    for index in 0..mebibytes {
        file.write_all_at(&bytes, (index * MIB) as u64)?;
    }
    file.sync_all()?;
    Ok(())
}
