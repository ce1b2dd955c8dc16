//! Imports after a crash: what they cost is to depend on what the log holds, not on the pool.

use super::options::Options;
use crate::write::product::{Daemon, POOL};
use crate::write::report::{Figures, Report};
use anyhow::Result;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// GiB of the pool's device, which takes what is written only.
const SIZES: [u64; 3] = [1, 10, 100];
/// Files of one block each that were synced after the last group, in all.
const LOGGED: [usize; 3] = [0, 1000, 8000];
/// Files that the pool holds, in the same proportion as its size.
const FILES_PER_GIBIBYTE: u64 = 200;
/// An import may take so much longer in the largest pool than in the smallest.
const GROWTH_MAX: f64 = 2.0;

fn write(path: &Path, is_synced: bool) -> Result<()> {
    let mut file = File::create(path)?;
    file.write_all(&[7; 4096])?;
    if is_synced {
        file.sync_all()?;
    }
    Ok(())
}

/// Seconds of an import of a pool of this size whose log holds so many files.
fn import(device: &Path, gibibytes: u64, logged: usize) -> Result<f64> {
    File::create(device)?.set_len(gibibytes << 30)?;
    let mut daemon = Daemon::create_of(&[device.into()], &["compression=off"])?;
    // Groups come when they are asked for, so that the log keeps what it has.
    let words = ["cenote", "settings", "set", "zfs_txg_timeout=3600"];
    daemon.run(&words[1..].iter().map(OsStr::new).collect::<Vec<_>>())?;
    let kept = daemon.path().join("kept");
    std::fs::create_dir(&kept)?;
    for index in 0..gibibytes * FILES_PER_GIBIBYTE {
        write(&kept.join(index.to_string()), false)?;
    }
    daemon.run(&["zpool", "sync", POOL].map(OsStr::new))?;
    for index in 0..logged {
        write(&daemon.path().join(index.to_string()), true)?;
    }
    daemon.crash()?;
    let (root, place) = (daemon.root(), device.parent().unwrap_or(device));
    let mut words = ["zpool", "import", "-f", "-R"].map(OsStr::new).to_vec();
    words.extend([root.as_os_str(), OsStr::new("-d"), place.as_os_str()]);
    words.push(OsStr::new(POOL));
    let began = Instant::now();
    daemon.run(&words)?;
    let elapsed = began.elapsed().as_secs_f64();
    let found = (0..logged).all(|index| daemon.path().join(index.to_string()).exists());
    anyhow::ensure!(found, "files that were synced are lost");
    Ok(elapsed)
}

/// Pools of three sizes, with nothing in the log and much.
pub fn run(options: &Options) -> Result<Report> {
    let directory = tempfile::tempdir_in(&options.directory)?;
    let device = directory.path().join("pool.img");
    let mut report = Report::default();
    for logged in LOGGED {
        for gibibytes in SIZES {
            for _ in 0..options.rounds {
                let seconds = import(&device, gibibytes, logged)?;
                let case = format!("{logged} files in the log");
                let who = format!("{gibibytes} GiB");
                println!("  {case}, {who}: {seconds:.3} s");
                let figures = Figures {
                    rate: 1.0 / seconds,
                    ..Figures::default()
                };
                report.add(&case, &who, figures);
            }
        }
        let case = format!("{logged} files in the log");
        report.want_rate(&case, ("100 GiB", "1 GiB"), 1.0 / GROWTH_MAX);
    }
    Ok(report)
}
