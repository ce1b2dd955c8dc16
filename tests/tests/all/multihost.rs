//! Two systems that can reach the same devices: a daemon each, with a host id of its own.

use anyhow::{Result, ensure};
use cenote_tests::pool;
use cenote_tests::site::Site;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// A system of this id, whose heartbeats are fast.
fn system(site: &Site, hostid: &str) -> Result<()> {
    site.ok(&format!(
        "cenote settings set spl_hostid={hostid} zfs_multihost_interval=100"
    ))?;
    Ok(())
}

fn has(text: &str, part: &str) -> Result<()> {
    ensure!(text.contains(part), "no '{part}' in:\n{text}");
    Ok(())
}

#[test]
fn a_pool_is_imported_once() -> Result<()> {
    let (one, other) = (
        Site::create("mirror", 128, "-O mountpoint=none")?,
        Site::new("tank")?,
    );
    system(&one, "0x11")?;
    system(&other, "0x22")?;
    one.ok("zpool set multihost=on tank")?;
    let devices = one.devices().display().to_string();
    let listed = other.ok(&format!("zpool import -d {devices}"))?;
    has(&listed, "state: UNAVAIL\n")?;
    has(
        &listed,
        "status: The pool is currently imported by another system.\n",
    )?;
    has(&listed, "(hostid=")?;
    for force in ["", "-f"] {
        let refused = other.fails(&format!("zpool import {force} -d {devices} tank"))?;
        has(
            &refused.stderr,
            "cannot import 'tank': pool is imported on host '",
        )?;
        has(
            &refused.stderr,
            "\nExport the pool on the other system, then run 'zpool import'.\n",
        )?;
    }
    // A read-only import does no harm.
    other.ok(&format!("zpool import -o readonly=on -N -d {devices} tank"))?;
    other.ok("zpool export tank")?;
    one.ok("zpool export tank")?;
    other.ok(&format!("zpool import -N -d {devices} tank"))?;
    let refused = one.fails(&format!("zpool import -f -N -d {devices} tank"))?;
    has(&refused.stderr, "(hostid=22).")?;
    // A system that died is silent; that is known after a while.
    other.kill()?;
    let begun = Instant::now();
    one.ok(&format!("zpool import -f -N -d {devices} tank"))?;
    ensure!(
        begun.elapsed() >= Duration::from_secs(2),
        "it did not watch"
    );
    one.finish()
}

#[test]
fn a_system_that_stood_still_has_lost_the_pool() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let (one, other) = (Site::create("single", 128, "")?, Site::new("tank")?);
    system(&one, "0x11")?;
    system(&other, "0x22")?;
    one.ok("zpool set multihost=on tank")?;
    let file = one.path("tank").join("file");
    fs::write(&file, "before")?;
    one.ok("zpool sync tank")?;
    // Longer than the ten heartbeats that it may miss.
    one.pause(|| {
        thread::sleep(Duration::from_millis(1200));
        Ok(())
    })?;
    ensure!(fs::write(&file, "after").is_err() || one.fails("zpool sync tank").is_ok());
    let status = one.ok("zpool status tank")?;
    has(
        &status,
        " state: SUSPENDED\nstatus: The pool is suspended because multihost writes",
    )?;
    has(&status, "/ZFS-8000-MM\n")?;
    ensure!(one.ok("zpool list -Ho health tank")? == "SUSPENDED\n");
    let refused = one.fails("zpool export tank")?;
    has(&refused.stderr, "suspended")?;
    one.ok("zpool export -f tank")?;
    ensure!(one.ok("zfs list -H")?.is_empty());
    let devices = one.devices().display();
    other.ok(&format!("zpool import -f -N -d {devices} tank"))?;
    other.ok("zfs set cenote:owner=other tank")?;
    other.ok("zpool export tank")?;
    one.import("")?;
    let owner = one.ok("zfs get -Ho value cenote:owner tank")?;
    ensure!(owner == "other\n", "{owner}");
    ensure!(fs::read_to_string(&file)? == "before");
    one.finish()
}
