//! Volumes as disks of this machine, without a driver in the kernel: the messages.
//!
//! With the driver, `cargo xtask guest-ublk` tests everything in a guest.

use anyhow::{Result, ensure};
use cenote_tests::site::Site;
use cenote_tests::skip;
use serde_json::Value;
use std::path::Path;

fn has_driver() -> bool {
    Path::new("/dev/ublk-control").exists()
}

#[test]
fn a_kernel_without_the_driver_is_named() -> Result<()> {
    if has_driver() {
        skip!("a kernel without ublk: this one has it");
        return Ok(());
    }
    let site = Site::create("single", 512, "")?;
    site.ok("zfs create -s -V 16M tank/vol")?;
    let refused = site.fails("cenote ublk serve tank/vol")?;
    ensure!(refused.code == Some(1), "{:?}", refused.code);
    for words in ["cannot serve 'tank/vol'", "ublk"] {
        ensure!(refused.stderr.contains(words), "{}", refused.stderr);
    }
    let refused = site.fails("cenote ublk serve tank/none")?;
    ensure!(
        refused.stderr.contains("does not exist"),
        "{}",
        refused.stderr
    );
    let refused = site.fails("cenote ublk serve tank")?;
    ensure!(
        refused.stderr.contains("is a file system"),
        "{}",
        refused.stderr
    );
    let refused = site.fails("cenote ublk stop tank/vol")?;
    ensure!(refused.stderr.contains("has no disk"), "{}", refused.stderr);
    site.ok("cenote ublk stop")?;
    // No volume was attached as a disk.
    let status = site.ok("cenote ublk status")?;
    ensure!(status.contains("no volume is a disk"), "{status}");
    // Now the property asks for one: the pool works all the same.
    let refused = site.fails("zfs set cenote:ublk=yes tank")?;
    ensure!(refused.stderr.contains("on | off"), "{}", refused.stderr);
    site.ok("zfs set cenote:ublk=on tank")?;
    site.ok("zfs create -s -V 16M tank/other")?;
    let missing = site.fails("cenote ublk status")?;
    let words = "volumes with cenote:ublk=on have no disk: ";
    ensure!(missing.stderr.contains(words), "{}", missing.stderr);
    site.export()?;
    site.import("")?;
    let missing = site.fails("cenote ublk status --json")?;
    let status: Value = serde_json::from_slice(&missing.stdout)?;
    ensure!(status["wanted"] == true, "{status}");
    ensure!(
        status["disks"].as_array().is_some_and(Vec::is_empty),
        "{status}"
    );
    let reason = status["unavailable"].as_str().unwrap_or_default();
    ensure!(reason.contains("ublk"), "{status}");
    let log = site.ok("cenote daemon log")?;
    let warnings = log.lines().filter(|line| line.contains("get no disk"));
    // The daemon may have been another one before the export.
    ensure!(
        (1..=2).contains(&warnings.count()),
        "one of each daemon: {log}"
    );
    site.ok("zfs set cenote:ublk=off tank")?;
    site.ok("cenote ublk status")?;
    Ok(())
}
