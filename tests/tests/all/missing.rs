//! Pools that should be imported and are not, and what a daemon had a moment before it ended.

use anyhow::{Context, Result, ensure};
use cenote_tests::patience::wait_until;
use cenote_tests::site::Site;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::net::UnixStream;

/// Ends the running daemon, even one that a command started, and waits for its end.
fn end_daemon(site: &Site, signal: Signal) -> Result<()> {
    let status = site.ok("cenote daemon status -j")?;
    let status: serde_json::Value = serde_json::from_str(&status)?;
    let pid = status["pid"].as_i64().context("a process")?;
    let process = Pid::from_raw(i32::try_from(pid)?).context("a process")?;
    kill_process(process, signal)?;
    let socket = site.cenote().socket();
    wait_until("the daemon is gone", || {
        Ok(UnixStream::connect(&socket).is_err())
    })
}

/// What says everywhere that the pool is missing.
fn is_missing(site: &Site, why: &str) -> Result<()> {
    for line in [
        "cenote health --no-smart",
        "cenote health --no-smart tank",
        "zpool status -x",
        "cenote daemon status",
    ] {
        let outcome = site.fails(line)?;
        ensure!(outcome.code == Some(3), "{}", outcome.report());
        let said = format!("{}{}", outcome.text(), outcome.stderr);
        for word in ["tank", why, "cenote daemon resume", "cenote daemon forget"] {
            ensure!(said.contains(word), "no '{word}' in {}", outcome.report());
        }
        ensure!(!said.contains("healthy"), "{}", outcome.report());
    }
    Ok(())
}

/// A pool whose import failed when the machine started was invisible: health said "no pools are
/// imported", with exit code 0.
#[test]
fn a_pool_that_does_not_come_back_is_missing_everywhere() -> Result<()> {
    let site = Site::create("single", 128, "-O mountpoint=none")?;
    // An alternate root keeps a pool out of the cache file.
    site.export()?;
    let devices = site.devices().display().to_string();
    site.ok(&format!("zpool import -N -d {devices} tank"))?;
    let (device, away) = (site.devices().join("d0.img"), site.devices().join("away"));
    let path = device.display().to_string();
    end_daemon(&site, Signal::TERM)?;
    site.kill()?;
    // It was stopped on purpose.
    ensure!(site.ok("cenote health")?.contains("no pools are imported"));
    fs::rename(&device, &away)?;
    site.start()?;
    let resumed = site.fails("cenote daemon resume")?;
    ensure!(resumed.code == Some(1), "{}", resumed.report());
    is_missing(&site, &path)?;
    let json = site.fails("cenote health -j --no-smart")?.stdout;
    let json: serde_json::Value = serde_json::from_slice(&json)?;
    ensure!(json["pools"]["tank"]["state"] == "MISSING", "{json}");
    let metrics = site.ok("cenote metrics")?;
    ensure!(
        metrics.contains("cenote_pool_missing{pool=\"tank\""),
        "{metrics}"
    );
    wait_until("an alarm", || {
        let log = site.ok("cenote daemon log")?;
        Ok(log.contains("pool 'tank' is missing on"))
    })?;
    // Its device comes a little later.
    fs::rename(&away, &device)?;
    wait_until("the pool is back by itself", || {
        Ok(site.ok("zpool list -H -o name")? == "tank\n")
    })?;
    site.ok("cenote health --no-smart")?;
    site.ok("zpool status -x")?;

    // A crash, and no daemon at all.
    end_daemon(&site, Signal::KILL)?;
    site.kill()?;
    fs::rename(&device, &away)?;
    let resumed = site.fails("cenote daemon resume")?;
    ensure!(resumed.code == Some(1), "{}", resumed.report());
    is_missing(&site, &path)?;
    site.ok("cenote daemon forget tank")?;
    fs::rename(&away, &device)?;
    ensure!(site.ok("cenote health")?.contains("no pools are imported"));
    site.ok("zpool status -x")?;
    let resumed = site.ok("cenote daemon resume")?;
    ensure!(resumed.contains("nothing to resume"), "{resumed}");
    site.start()?;
    site.import("")?;
    // What is exported is not expected any more, also where the cache file has it from before.
    site.export()?;
    site.ok("zpool status -x")?;
    site.import("")?;
    site.finish()
}

/// What is mounted: datasets and snapshots.
fn mounted(site: &Site) -> Result<Vec<String>> {
    let table = fs::read_to_string("/proc/self/mounts")?;
    let here = site.cenote().directory().display().to_string();
    let lines = table
        .lines()
        .filter(|line| line.contains("fuse.cenote") && line.contains(&here));
    let names = lines.filter_map(|line| line.split(' ').next());
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort();
    Ok(names)
}

/// The record of mounts is written within a second, and `resume` used it: a mount of a snapshot or
/// a rename just before a kill was lost, or dead, with exit code 0.
#[test]
fn what_changed_a_moment_before_the_end_is_there_again() -> Result<()> {
    if !cenote_tests::pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 128, "")?;
    site.ok("zpool set cachefile= tank")?;
    let aside = site.cenote().subdirectory("aside")?.display().to_string();
    site.ok("zfs create -p tank/a/below")?;
    site.ok("zfs snapshot tank@s")?;
    site.ok("zfs create tank/quiet")?;
    site.ok("zfs unmount tank/quiet")?;
    site.ok(&format!("cenote mount tank@s {aside}"))?;
    site.ok("zfs rename tank/a tank/b")?;
    end_daemon(&site, Signal::KILL)?;
    site.kill()?;
    site.ok("cenote daemon resume")?;
    let all = ["tank", "tank/b", "tank/b/below", "tank@s"];
    ensure!(mounted(&site)? == all, "{:?}", mounted(&site)?);
    fs::write(site.path("tank/b/below/file"), "contents")?;

    // What is taken away while all comes back stays away.
    site.ok(&format!("cenote unmount {aside}"))?;
    end_daemon(&site, Signal::KILL)?;
    site.ok("cenote daemon resume")?;
    ensure!(mounted(&site)? == all[..3], "{:?}", mounted(&site)?);

    site.ok(&format!("cenote mount tank@s {aside}"))?;
    end_daemon(&site, Signal::TERM)?;
    ensure!(fs::read_dir(&aside)?.next().is_none(), "it ended in order");
    site.ok("cenote daemon resume")?;
    let found = mounted(&site)?;
    ensure!(
        all.iter()
            .all(|name| found.iter().any(|found| found == name)),
        "{found:?}"
    );

    // What cannot be mounted again is named, and its dead mount goes.
    let below = site.path("tank/b/below");
    end_daemon(&site, Signal::KILL)?;
    let devices = site.devices().display().to_string();
    let root = site.path("").display().to_string();
    site.ok(&format!("zpool import -N -R {root} -d {devices} tank"))?;
    site.ok("zfs destroy tank/b/below")?;
    end_daemon(&site, Signal::KILL)?;
    let resumed = site.fails("cenote daemon resume")?;
    ensure!(resumed.code == Some(1), "{}", resumed.report());
    ensure!(
        resumed.stderr.contains("cannot mount 'tank/b/below'"),
        "{}",
        resumed.report()
    );
    let is_dead = fs::metadata(&below).is_err_and(|error| error.raw_os_error() == Some(107));
    ensure!(!is_dead, "a dead mount is left");
    site.ok("zfs destroy -r tank/b")?;
    site.export()?;
    site.start()?;
    site.import("")?;
    site.finish()
}
