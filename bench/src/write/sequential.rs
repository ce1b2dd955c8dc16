//! Sequential writes of 1 MiB, and what incompressible data costs.

use super::engine::noise;
use super::product::Daemon;
use super::report::{Figures, Report};
use super::rivals::{self, kernel_write, openzfs_write};
use super::{Options, machine, workload};
use crate::read::mounted::NullServer;
use anyhow::Result;

const OURS: &str = "cenote";
const OPENZFS: &str = "OpenZFS engine";
const DISK: &str = "disk, O_DIRECT";
const EMPTY: &str = "empty FUSE server";

/// Writes `data` to a new pool through its mount, to the end of `fsync`.
fn ours(options: &Options, layout: &str, compression: &str, data: &[u8]) -> Result<Figures> {
    let compression = format!("compression={compression}");
    let daemon = Daemon::create(options, layout, &[&compression])?;
    let file = daemon.path().join("data");
    let before = daemon.clocks()?;
    let rate = workload::write(&file, data)?;
    let spent = daemon.clocks()?.since(&before);
    let stored = Some(daemon.stored(&file)?);
    Ok(Figures {
        stored,
        ..spent.per_gib(rate, data.len())
    })
}

fn only(rate: f64) -> Figures {
    Figures {
        rate,
        ..Figures::default()
    }
}

/// Compressible data on raidz2 beside OpenZFS, on one device beside the kernel's file systems.
pub fn run(options: &Options) -> Result<Report> {
    let data = rivals::data(options)?;
    let null = NullServer::new(0)?;
    let mut report = Report::default();
    for _ in 0..options.rounds {
        let disk = options.directory.join("ceiling");
        let direct = machine::direct_write_rate(&disk, options.mebibytes)?;
        report.add("single off", DISK, only(direct));
        let empty = workload::write(&null.path().join("new"), &data)?;
        report.add("single off", EMPTY, only(empty));
        for (layout, compression) in [
            ("raidz2:6", "zstd-3"),
            ("raidz2:6", "lz4"),
            ("raidz2:6", "off"),
            ("single", "zstd-3"),
            ("single", "off"),
        ] {
            let case = format!("{layout} {compression}");
            let figures = ours(options, layout, compression, &data)?;
            report.add(&case, OURS, figures);
            let figures = openzfs_write(options, layout, compression, "2.0")?;
            report.add(&case, OPENZFS, figures);
        }
        for (case, kind, mount) in [
            ("single zstd-3", "btrfs", "compress=zstd"),
            ("single off", "btrfs", ""),
            ("single off", "xfs", ""),
        ] {
            let figures = kernel_write(options, kind, mount, &data)?;
            report.add(case, kind, figures);
        }
    }
    for compression in ["zstd-3", "lz4", "off"] {
        let case = format!("raidz2:6 {compression}");
        report.want_rate(&case, (OURS, OPENZFS), 1.5);
        report.want_cpu(&case, (OURS, OPENZFS), 0.8);
    }
    report.want_rate("single zstd-3", (OURS, "btrfs"), 1.0);
    report.want_rate("single off", (OURS, "btrfs"), 1.0);
    report.want_rate("single off", (OURS, DISK), 0.7);
    Ok(report)
}

/// Random bytes with zstd and without compression.
pub fn incompressible(options: &Options) -> Result<Report> {
    let data = noise(options.mebibytes << 20);
    let mut report = Report::default();
    for _ in 0..options.rounds {
        for compression in ["off", "zstd-3", "lz4"] {
            let who = format!("{OURS} {compression}");
            let figures = ours(options, "raidz2:6", compression, &data)?;
            report.add("raidz2:6", &who, figures);
        }
        for compression in ["off", "zstd-3"] {
            let who = format!("{OPENZFS} {compression}");
            let figures = openzfs_write(options, "raidz2:6", compression, "")?;
            report.add("raidz2:6", &who, figures);
        }
    }
    let pair = ("cenote zstd-3", "cenote off");
    report.want_rate("raidz2:6", pair, 1.0 / 1.1);
    report.want_cpu("raidz2:6", pair, 1.1);
    Ok(report)
}
