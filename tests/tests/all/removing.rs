//! `zpool remove` of log, spare and cache devices, and which devices a pool takes.
//!
//! Log and cache devices could be added, were shown as ONLINE, and could never be removed. Devices
//! with a file system, swap or a partition table were taken without a word, and one that had been
//! replaced while it was away not even by force.

use crate::devices::{device, pool, refusal, state};
use anyhow::{Context, Result, ensure};
use cenote_tests::golden::Golden;
use cenote_tests::program::Cenote;
use cenote_tests::referee;
use cenote_tests::site::Site;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

fn has(text: &str, part: &str) -> Result<()> {
    ensure!(text.contains(part), "no '{part}' in:\n{text}");
    Ok(())
}

/// Nothing happens with -n, and what is no such device is refused by a reason.
fn what_cannot_be_removed_says_why(
    site: &Site,
    (data, side, log): (&str, &str, &str),
    (cache, spare): (&str, &str),
) -> Result<()> {
    let trial = site.ok(&format!(
        "zpool remove -n tank mirror-1 {log} {cache} {spare}"
    ))?;
    ensure!(trial.lines().count() == 4, "{trial}");
    let other = "only log, spare and cache devices";
    for (command, text) in [
        ("remove tank mirror-0".to_owned(), other),
        (format!("remove tank {data}"), "'zpool detach'"),
        (format!("remove tank {side}"), "'zpool detach'"),
        (format!("offline tank {spare}"), "reserved as a hot spare"),
        (format!("offline -f tank {cache}"), "in use as a cache"),
        ("remove -s tank".to_owned(), "no removal is in progress"),
    ] {
        refusal(site, &format!("zpool {command}"), 1, text)?;
    }
    Ok(())
}

/// `zpool offline` refused cache devices.
fn a_cache_rests(site: &Site, cache: &str) -> Result<()> {
    let is = |wanted: &str| -> Result<()> {
        let found = state(site, cache)?;
        ensure!(found == wanted, "{cache} is {found}, not {wanted}");
        Ok(())
    };
    let again = || {
        site.export()?;
        site.judge()?;
        site.import("-N")
    };
    site.ok(&format!("zpool offline tank {cache}"))?;
    is("OFFLINE")?;
    has(
        &site.ok("zpool status tank")?,
        "taken offline by the administrator",
    )?;
    for command in ["labelclear -f", "create -f other"] {
        site.fails(&format!("zpool {command} {cache}"))?;
    }
    again()?;
    is("OFFLINE")?;
    site.ok(&format!("zpool online tank {cache}"))?;
    is("ONLINE")?;
    site.ok(&format!("zpool offline -t tank {cache}"))?;
    is("OFFLINE")?;
    again()?;
    is("ONLINE")
}

#[test]
fn logs_spares_and_caches_leave_for_good() -> Result<()> {
    let (site, d) = pool("mirror", 2)?;
    let [l1, l2, l3, c, s] = [2, 3, 4, 5, 6].map(|number| device(&site, number));
    let [l1, l2, l3, c, s] = [l1?, l2?, l3?, c?, s?].map(|path| path.display().to_string());
    let words = format!("add tank log mirror {l1} {l2} cache {c} spare {s}");
    let words: Vec<&str> = words.split(' ').collect();
    let added = site.cenote().run("zpool", &words)?.success()?;
    has(&added.stderr, "does not use cache devices yet")?;
    site.ok(&format!("zpool add tank log {l3}"))?;
    has(
        &site.ok("zpool status tank")?,
        "does not use cache devices yet",
    )?;
    what_cannot_be_removed_says_why(&site, (&d[0], &l1, &l3), (&c, &s))?;
    a_cache_rests(&site, &c)?;
    // A mirrored log's side goes by detach, the rest by remove; the places become holes.
    site.ok(&format!("zpool detach tank {l2}"))?;
    site.ok(&format!("zpool remove tank {l1} {c}"))?;
    site.ok(&format!("zpool remove -w tank {s}"))?;
    // It kept its label.
    site.ok(&format!("zpool labelclear {c}"))?;
    site.fails(&format!("zpool labelclear {c}"))?;
    let status = site.ok("zpool status tank")?;
    ensure!(
        !status.contains("cache") && !status.contains("spares"),
        "{status}"
    );
    has(&status, &l3)?;
    has(
        &site.ok("zpool history tank")?,
        &format!("zpool remove tank {l1} {c}"),
    )?;
    // What was removed is free: no pool, no force.
    site.ok(&format!(
        "zpool create -O mountpoint=none other {l1} spare {s} cache {c}"
    ))?;
    site.ok("zpool destroy other")?;
    site.export()?;
    site.judge()?;
    site.import("-N")?;
    // Another log gets a place of its own, and can leave again.
    site.ok(&format!("zpool add -f tank log {l1}"))?;
    site.ok(&format!("zpool remove tank {l3} {l1}"))?;
    let status = site.ok("zpool status tank")?;
    ensure!(
        !status.contains("logs") && !status.contains("note:"),
        "{status}"
    );
    site.finish()
}

/// What `fsync` promised on OpenZFS is on the log device alone until it is replayed.
#[test]
fn a_log_stays_while_it_holds_what_was_promised() -> Result<()> {
    let Some(golden) = Golden::find("dirty-zil-slog")? else {
        return Ok(());
    };
    let cenote = Cenote::new()?;
    let devices = cenote.subdirectory("devices")?;
    let images = golden.copy_to(&devices)?;
    let log = images[1].file_name().context("a name")?;
    let (pool, log) = (&golden.manifest.pool, log.to_string_lossy());
    cenote.ok(&format!(
        "zpool import -f -N -d {} {pool}",
        devices.display()
    ))?;
    let refused = cenote.run("zpool", &["remove", pool, &log])?;
    ensure!(refused.code == Some(1), "{}", refused.report());
    for dataset in ["data", "enc", "log2"] {
        has(&refused.stderr, &format!("{pool}/{dataset}"))?;
    }
    // The logs of what is destroyed go with it, keys or not.
    for dataset in ["data", "enc", "log2"] {
        cenote.ok(&format!("zfs destroy -r {pool}/{dataset}"))?;
    }
    cenote.ok(&format!("zpool remove {pool} {log}"))?;
    let status = cenote.ok(&format!("zpool status {pool}"))?;
    ensure!(!status.contains("logs"), "{status}");
    cenote.ok(&format!("zpool export {pool}"))?;
    let place = devices.display().to_string();
    match referee::run(&["check", &place, pool])? {
        Some(outcome) => outcome.map(drop),
        None => Ok(()),
    }
}

/// Puts bytes at a place of a device.
fn put(path: &Path, at: u64, bytes: &[u8]) -> Result<()> {
    let file = File::options().write(true).open(path)?;
    Ok(file.write_all_at(bytes, at)?)
}

#[test]
fn what_a_device_holds_is_lost_by_force_only() -> Result<()> {
    let (site, d) = pool("mirror", 2)?;
    let [a, b, c] = [2, 3, 4].map(|number| device(&site, number));
    let (a, b, c) = (a?, b?, c?);
    put(&a, 0, b"LUKS\xba\xbe\0\x01")?;
    put(&b, 0x8001, b"CD001\x01")?;
    put(&c, 512, b"EFI PART\0\0\x01\0")?;
    let [luks, disc, table] = [&a, &b, &c].map(|path| path.display().to_string());
    let old = &d[0];
    for command in [
        format!("zpool create -O mountpoint=none other {luks}"),
        format!("zpool create -O mountpoint=none other {old} log {luks}"),
        format!("zpool add tank spare {luks}"),
        format!("zpool add tank cache {luks}"),
        format!("zpool add -n tank log {luks}"),
        format!("zpool attach tank {old} {luks}"),
        format!("zpool replace tank {old} {luks}"),
    ] {
        let text = match command.contains("create") && command.contains(old.as_str()) {
            true => "is part of active pool 'tank'",
            false => "contains a filesystem of type 'crypto_LUKS'",
        };
        refusal(&site, &command, 1, text)?;
    }
    let twice = format!("zpool create other {disc} {table}");
    refusal(&site, &twice, 1, "contains a filesystem of type 'iso9660'")?;
    refusal(&site, &twice, 1, "contains a partition table of type 'gpt'")?;
    let link = site.devices().join("link");
    fs::hard_link(&b, &link)?;
    let twice = format!("zpool create -f other mirror {disc} {}", link.display());
    refusal(&site, &twice, 1, "refer to the same device")?;
    fs::remove_file(&link)?;
    site.ok(&format!("zpool add -f tank spare {luks} cache {disc}"))?;
    site.ok(&format!("zpool attach -f tank {old} {table}"))?;
    crate::devices::until_whole(&site)?;
    site.ok(&format!("zpool remove tank {luks} {disc}"))?;
    // Nothing is left of what they were.
    site.ok(&format!(
        "zpool create -O mountpoint=none other {luks} {disc}"
    ))?;
    site.ok("zpool destroy other")?;
    [a, b].iter().try_for_each(fs::remove_file)?;
    site.finish()
}

/// `zpool labelclear -f` took the labels off a device that was offline, by any of its names: then
/// `zpool online` could not bring it back.
fn labels_stay_on_a_resting_device(site: &Site, device: &str) -> Result<()> {
    let other = site.devices().join("other-name");
    fs::hard_link(device, &other)?;
    for name in [device, &other.display().to_string()] {
        for force in ["", "-f "] {
            let command = format!("zpool labelclear {force}{name}");
            refusal(site, &command, 1, "is a member (ACTIVE) of pool \"tank\"")?;
        }
    }
    fs::remove_file(&other)?;
    site.ok(&format!("zpool online tank {device}"))?;
    crate::devices::until_whole(site)?;
    let found = state(site, device)?;
    ensure!(found == "ONLINE", "{device} is {found}");
    site.ok(&format!("zpool offline tank {device}")).map(drop)
}

/// A disk that was replaced while it was away came back, and was "in use" forever. Its labels name
/// an imported pool, and there was no check whether that pool still has it.
#[test]
fn a_former_device_is_taken_by_force_and_a_present_one_never() -> Result<()> {
    let (site, d) = pool("mirror", 2)?;
    let new = device(&site, 2)?.display().to_string();
    let (old, away) = (&d[0], site.devices().join("away"));
    site.ok(&format!("zpool offline tank {old}"))?;
    refusal(
        &site,
        &format!("zpool create -f other {old}"),
        1,
        "active pool 'tank'",
    )?;
    labels_stay_on_a_resting_device(&site, old)?;
    fs::rename(old, &away)?;
    site.ok(&format!("zpool replace -w tank {old} {new}"))?;
    fs::rename(&away, old)?;
    refusal(
        &site,
        &format!("zpool attach tank {new} {old}"),
        1,
        "a former device of pool",
    )?;
    site.ok(&format!("zpool attach -f tank {new} {old}"))?;
    crate::devices::until_whole(&site)?;
    refusal(
        &site,
        &format!("zpool create -f other {old}"),
        1,
        "active pool 'tank'",
    )?;
    site.finish()
}

/// A loop device and what is behind it; detached when it goes.
struct Loop(String);

impl Loop {
    fn new(image: &Path) -> Option<Self> {
        let made = Command::new("losetup")
            .args(["-f", "--show"])
            .arg(image)
            .output();
        let made = made.ok().filter(|made| made.status.success())?;
        Some(Self(
            String::from_utf8_lossy(&made.stdout).trim().to_owned(),
        ))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // A failure leaves the loop device attached, where `losetup` shows it.
        let _ = Command::new("losetup").arg("-d").arg(&self.0).status();
    }
}

#[test]
fn what_the_kernel_uses_no_force_takes() -> Result<()> {
    let site = Site::new("tank")?;
    let image = device(&site, 0)?;
    let Some(shown) = Loop::new(&image) else {
        cenote_tests::skip!("no loop device can be made");
        return Ok(());
    };
    let (file, disk) = (image.display().to_string(), &shown.0);
    let in_use = format!("is in use by the loop device {disk}");
    refusal(&site, &format!("zpool create -f tank {file}"), 1, &in_use)?;
    refusal(
        &site,
        &format!("zpool create -f tank {file}"),
        1,
        "must be manually",
    )?;
    let twice = format!("zpool create -f tank {disk} {file}");
    site.fails(&twice)?;
    let swap = Command::new("mkswap").arg(disk).output();
    if !swap.is_ok_and(|made| made.status.success()) {
        cenote_tests::skip!("no mkswap for {disk}");
        return Ok(());
    }
    let held = format!("zpool create -O mountpoint=none tank {disk}");
    refusal(&site, &held, 1, "contains a filesystem of type 'swap'")?;
    site.ok(&held.replace("create", "create -f"))?;
    site.ok("zpool destroy tank")?;
    Ok(())
}
