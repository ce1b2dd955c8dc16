//! A pool in a bucket behind a slow line, with its requests counted, beside other ways to keep
//! files there.
//!
//! The server is versitygw and the line `slow-net` (25 ms, 3 MB/s up, 12 MB/s down), which counts
//! requests and bytes as a bill would. What is stored: one file of 96.4 MB, half noise and half
//! words, and a tree of 14,046 small files, 17.3 MB. Every phase is measured apart, and those that
//! have a bar are judged by it; bytes and requests are exact, seconds depend on the machine where
//! they are not the line's.
//!
//! *device*: the device alone, without a pool. *pool*: commands, as a user gives them. *rivals*:
//! restic and rclone, which copy files, and s3backer under ext4, which is a block device as ours
//! is.

mod device;
mod files;
mod line;
mod pool;
mod report;
mod rivals;

use line::Line;
pub use line::Profile;
use report::Report;

use anyhow::{Result, ensure};
use std::path::PathBuf;

/// What to measure.
#[derive(Debug)]
pub struct Options {
    /// Parts; all if empty.
    pub parts: Vec<String>,
    /// Where files, local sides and the server's data are.
    pub directory: PathBuf,
    /// The line.
    pub profile: Profile,
    /// Seconds for which nothing is done, to see that nothing is asked.
    pub idle: u64,
    /// Files of the tree.
    pub files: u64,
    /// Where to put the figures as JSON.
    pub json: Option<PathBuf>,
}

/// The parts there are.
pub const PARTS: [&str; 3] = ["device", "pool", "rivals"];

/// Measures, and prints as it goes; false if a bar is missed.
///
/// # Errors
/// If something cannot be made or run.
pub fn run(options: &Options) -> Result<bool> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "mounts, and caches that are dropped, need root"
    );
    std::fs::create_dir_all(&options.directory)?;
    let directory = options.directory.canonicalize()?;
    let files = files::make(&directory.join("cloud-files"), options.files)?;
    let line = Line::start(&directory.join("cloud-server"), options.profile)?;
    println!("{}", line.describe());
    let mut report = Report::default();
    let wanted =
        |part: &str| options.parts.is_empty() || options.parts.iter().any(|name| name == part);
    let place = |name: &str| -> Result<PathBuf> {
        let place = directory.join(format!("cloud-{name}"));
        let _ = std::fs::remove_dir_all(&place);
        std::fs::create_dir(&place)?;
        Ok(place)
    };
    if wanted("device") {
        device::measure(&line, &place("device")?, options.idle, &mut report)?;
    }
    if wanted("pool") {
        pool::measure(&line, &place("pool")?, &files, options.idle, &mut report)?;
    }
    if wanted("rivals") {
        rivals::measure(&line, &place("rivals")?, &files, &mut report)?;
    }
    if let Some(path) = &options.json {
        std::fs::write(path, report.json().to_string())?;
    }
    Ok(report.is_good())
}
