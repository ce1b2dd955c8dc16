//! Sequential rebuilds: what they copy, what follows, and where they are refused.

use crate::devices::{device, pool, refusal, state, write};
use anyhow::{Result, ensure};
use cenote_tests::site::Site;
use std::fs;

/// Waits for the rebuild and for the scrub that follows, of which the pool has then seen `scrubs`;
/// returns what `zpool status` says. Until the scrub begins, the status shows the one before.
fn rebuilt(site: &Site, scrubs: usize) -> Result<String> {
    site.ok("zpool wait -t resilver,replace tank")?;
    cenote_tests::patience::wait_until("scrubbed", || {
        let history = site.ok("zpool history -i tank")?;
        Ok(history.matches("scan done").count() == scrubs)
    })?;
    let status = site.ok("zpool status tank")?;
    ensure!(status.contains("scrub repaired 0B"), "{status}");
    ensure!(status.contains("scan: resilvered ("), "{status}");
    ensure!(status.contains("state: ONLINE"), "{status}");
    Ok(status)
}

#[test]
fn a_side_is_copied_in_the_order_of_the_disk() -> Result<()> {
    if !cenote_tests::pool::can_mount() {
        return Ok(());
    }
    let (site, devices) = pool("", 1)?;
    write(&site, "before")?;
    let content = fs::read(site.path("tank/before"))?;
    let second = device(&site, 1)?.display().to_string();
    site.ok(&format!("zpool attach -s tank {} {second}", devices[0]))?;
    write(&site, "meanwhile")?;
    rebuilt(&site, 1)?;
    // A rebuild interrupted by an export resumes by itself.
    let third = device(&site, 2)?.display().to_string();
    site.ok(&format!("zpool replace -s tank {} {third}", devices[0]))?;
    site.reopen(&["tank"])?;
    rebuilt(&site, 2)?;
    ensure!(state(&site, &third)? == "ONLINE" && state(&site, &devices[0])?.is_empty());
    // Now everything has to be on each of the new ones.
    site.ok(&format!("zpool detach tank {second}"))?;
    site.reopen(&["tank"])?;
    ensure!(fs::read(site.path("tank/before"))? == content);
    let history = site.ok("zpool history -i tank")?;
    ensure!(history.contains("rebuild vdev_id=0"), "{history}");
    site.finish()
}

#[test]
fn rows_of_a_draid_are_rebuilt_and_those_of_a_raidz_are_not() -> Result<()> {
    if !cenote_tests::pool::can_mount() {
        return Ok(());
    }
    let (site, devices) = pool("draid1:2d:4c", 4)?;
    write(&site, "before")?;
    let new = device(&site, 4)?.display().to_string();
    site.ok(&format!("zpool replace -s tank {} {new}", devices[1]))?;
    rebuilt(&site, 1)?;
    ensure!(state(&site, &new)? == "ONLINE");
    let other = &devices[2];
    site.ok(&format!("zpool offline tank {other}"))?;
    site.reopen(&["tank"])?;
    site.ok(&format!("zpool online tank {other}"))?;
    site.ok("zpool wait -t resilver tank")?;
    site.finish()?;
    let (site, devices) = pool("raidz1", 3)?;
    let new = device(&site, 3)?.display().to_string();
    let (old, command) = (
        &devices[0],
        format!("zpool replace -s tank {} {new}", devices[0]),
    );
    let text = "only mirror and dRAID vdevs support sequential reconstruction";
    let text = format!("cannot replace {old} with {new}: {text}\n");
    refusal(&site, &command, 255, &text)?;
    site.finish()
}
