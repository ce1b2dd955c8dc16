//! Small overwrites at random places of a file with small records.

use super::machine::Clocks;
use super::product::Daemon;
use super::report::{Figures, Report};
use super::rivals::{self, Kernel};
use super::{Options, workload};
use crate::read::mounted::NullServer;
use anyhow::Result;
use std::path::Path;

/// Writes of 4 KiB each.
const WRITES: u64 = 40_000;

/// Writes the file once, then in places, and adds two rows for `who`.
fn measure(
    report: &mut Report,
    who: &str,
    (file, size): (&Path, u64),
    data: &[u8],
    clocks: impl Fn() -> Result<Clocks>,
) -> Result<()> {
    let before = clocks()?;
    let (accepted, synced) = workload::overwrite(file, size, WRITES, data)?;
    let spent = clocks()?.since(&before);
    let accepted = Figures {
        rate: accepted,
        ..Figures::default()
    };
    report.add("accepted", who, accepted);
    let figures = spent.per_ten_thousand(synced, WRITES);
    report.add("on disk", who, figures);
    Ok(())
}

/// Random overwrites of 4 KiB beside btrfs, XFS and an empty server.
pub fn run(options: &Options) -> Result<Report> {
    let data = rivals::data(options)?;
    let size = data.len() as u64;
    let null = NullServer::new(0)?;
    let mut report = Report::default();
    for _ in 0..options.rounds {
        let daemon = Daemon::create(options, "single", &["recordsize=16K"])?;
        let file = daemon.path().join("data");
        workload::write(&file, &data)?;
        measure(&mut report, "cenote", (&file, size), &data, || {
            daemon.clocks()
        })?;
        drop(daemon);
        let (file, process) = (null.path().join("data"), null.process());
        let who = "empty FUSE server";
        measure(&mut report, who, (&file, size), &data, || {
            Clocks::now(Some(process))
        })?;
        for kind in ["btrfs", "xfs"] {
            let kernel = Kernel::new(options, kind, "")?;
            let file = kernel.path().join("data");
            workload::write(&file, &data)?;
            measure(&mut report, kind, (&file, size), &data, || {
                Clocks::now(None)
            })?;
        }
    }
    for case in ["accepted", "on disk"] {
        report.want_rate(case, ("cenote", "btrfs"), 1.0);
    }
    report.want_rate("accepted", ("cenote", "empty FUSE server"), 0.0);
    Ok(report)
}
