//! The cost of durable writes: `fsync` beside XFS, btrfs and ext4.
//!
//! All file systems lie on preallocated files of the same size on one disk: ours as devices, the
//! kernel's by loop devices. They stay mounted during a run, and each case is measured on all of
//! them in turns, so that other load of the machine affects all of them.
//!
//! The ceiling is the disk's own: 4 KiB written into such a file, and `fdatasync`, by one caller.
//! A file system that gives each commit a flush of its own can do no more, whatever the number of
//! callers; one that lets commits share flushes can. In front of the last row is a log device, a
//! file in memory: how much of an `fsync` is the disk's share.
//!
//! Bytes written are counted where they leave the file system, those of the groups or the
//! write-back that follow an `fsync` included: by the kernel for our daemon (`/proc/PID/io`), by
//! the loop device for the others. Memory files are in neither.

mod appends;
mod crash;
mod database;
mod options;
mod rival;

pub use options::Options;

use crate::write::report::Report;
use anyhow::{Result, bail};

/// A part: its name, its title, the unit of its rates, whether it runs unasked, and what does it.
type Part = (
    &'static str,
    &'static str,
    &'static str,
    bool,
    fn(&Options) -> Result<Report>,
);

const PARTS: [Part; 3] = [
    (
        "appends",
        "4 KiB and fsync; stored: bytes written for each one",
        "fsyncs/s",
        true,
        appends::run,
    ),
    (
        "database",
        "pgbench, PostgreSQL's own load",
        "tps",
        true,
        database::run,
    ),
    (
        "import",
        "imports after a crash, by what the log holds",
        "1/s",
        false,
        crash::run,
    ),
];

/// Runs the parts and prints a table for each; false if a goal is missed.
///
/// # Errors
/// If there is no such part, or the figures cannot be written.
pub fn run(options: &Options) -> Result<bool> {
    let names = PARTS.map(|(name, ..)| name);
    let is_known = |name: &&String| names.contains(&name.as_str());
    if let Some(unknown) = options.parts.iter().find(|name| !is_known(name)) {
        bail!("no part '{unknown}'; there are: {}", names.join(", "));
    }
    std::fs::create_dir_all(&options.directory)?;
    let mut good = true;
    let mut results = serde_json::Map::new();
    for (name, title, unit, is_usual, run) in PARTS {
        let is_chosen = match options.parts.is_empty() {
            true => is_usual,
            false => options.parts.iter().any(|part| part == name),
        };
        if !is_chosen {
            continue;
        }
        println!("\n{name}: {title}");
        match run(options) {
            Ok(report) => {
                good &= report.print(unit, "10k");
                results.insert(name.to_owned(), report.json());
            }
            Err(error) => {
                println!("  not measured: {error:#}");
                good = false;
            }
        }
    }
    if let Some(path) = &options.json {
        std::fs::write(path, serde_json::to_string_pretty(&results)?)?;
    }
    Ok(good)
}
