//! The disk's own figure, and CPU time.

use super::report::Figures;
use anyhow::{Context, Result};
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

/// Readings of processor time, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// This process and, if there is one, the server.
    pub processes: Option<f64>,
    /// Everything on the machine, the kernel's threads too.
    pub machine: f64,
}

impl Clocks {
    /// The clocks now. Without a server only the machine's clock covers the work.
    pub fn now(server: Option<u32>) -> Result<Self> {
        let processes = match server {
            Some(process) => Some(cpu_seconds() + cpu_seconds_of(process)?),
            None => None,
        };
        let machine = machine_seconds()?;
        Ok(Self { processes, machine })
    }

    /// What was spent since `before`.
    pub fn since(&self, before: &Self) -> Self {
        let processes = self.processes.zip(before.processes);
        Self {
            processes: processes.map(|(now, before)| now - before),
            machine: self.machine - before.machine,
        }
    }

    /// Figures of writing or reading `bytes` at a rate.
    pub fn per_gib(&self, rate: f64, bytes: usize) -> Figures {
        let per_gib = |seconds: f64| seconds / bytes as f64 * (1_u64 << 30) as f64;
        Figures {
            rate,
            cpu: Some(per_gib(self.processes.unwrap_or(self.machine))),
            cpu_all: Some(per_gib(self.machine)),
            stored: None,
        }
    }

    /// Figures of so many operations at a rate.
    pub fn per_ten_thousand(&self, rate: f64, operations: u64) -> Figures {
        let each = |seconds: f64| seconds / operations as f64 * 1e4;
        Figures {
            rate,
            cpu: Some(each(self.processes.unwrap_or(self.machine))),
            cpu_all: Some(each(self.machine)),
            stored: None,
        }
    }
}

/// The kernel counts processor time for others in hundredths of a second.
const TICKS: f64 = 100.0;

/// CPU seconds that a process has used, in the kernel too.
pub fn cpu_seconds_of(process: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name in brackets may hold anything, spaces too.
    let (_, behind) = stat.rsplit_once(')').context("no name in /proc")?;
    let field = |index: usize| behind.split_whitespace().nth(index).map(str::parse::<f64>);
    let ticks = field(11).context("no utime")?? + field(12).context("no stime")??;
    Ok(ticks / TICKS)
}

/// CPU seconds that all processors were not idle.
fn machine_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let line = stat.lines().next().context("/proc/stat is empty")?;
    let fields: Vec<f64> = line
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq
    let busy = [0, 1, 2, 5, 6].map(|index| fields.get(index).copied().unwrap_or(0.0));
    Ok(busy.iter().sum::<f64>() / TICKS)
}
