//! Cold sequential reads of our pool by both sides.

use super::machine::Clocks;
use super::product::{self, Daemon, POOL};
use super::report::Report;
use super::rivals::{self, openzfs_figures};
use super::{Options, workload};
use crate::read::machine;
use anyhow::Result;
use std::ffi::OsStr;

/// Reads what was written, after an export, by both sides.
pub fn run(options: &Options) -> Result<Report> {
    let data = rivals::data(options)?;
    let mut report = Report::default();
    for _ in 0..options.rounds {
        for (layout, compression) in [("raidz2:6", "zstd-3"), ("raidz2:6", "off")] {
            let property = format!("compression={compression}");
            let case = format!("{layout} {compression}");
            let daemon = Daemon::create(options, layout, &[&property])?;
            workload::write(&daemon.path().join("data"), &data)?;
            daemon.export()?;
            let directory = product::directory(options, layout);
            let (words, size) = (
                [
                    OsStr::new("bench-readback"),
                    directory.as_os_str(),
                    OsStr::new(POOL),
                ],
                data.len() as f64,
            );
            let figures = openzfs_figures(&rivals::openzfs(&words)?, size)?;
            report.add(&case, "OpenZFS engine", figures);
            machine::drop_caches()?;
            let root = daemon.root();
            let words = ["zpool", "import", "-R"].map(OsStr::new);
            let mut all = words.to_vec();
            all.extend([root.as_os_str(), OsStr::new("-d"), directory.as_os_str()]);
            all.push(OsStr::new(POOL));
            daemon.run(&all)?;
            let before = daemon.clocks()?;
            let rate = machine::read_rate(&daemon.path().join("data"))?;
            let spent: Clocks = daemon.clocks()?.since(&before);
            report.add(&case, "cenote", spent.per_gib(rate, data.len()));
        }
    }
    for case in ["raidz2:6 zstd-3", "raidz2:6 off"] {
        report.want_rate(case, ("cenote", "OpenZFS engine"), 1.5);
    }
    Ok(report)
}
