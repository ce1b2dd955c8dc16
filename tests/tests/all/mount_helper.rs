//! `mount.zfs` called as mount(8) calls it, and what `zfs mount` and `unmount` leave to it.

use anyhow::{Result, ensure};
use cenote_tests::pool;
use cenote_tests::program::Outcome;
use cenote_tests::site::Site;
use std::fs;
use std::path::PathBuf;

/// A pool with a file system for mount(8) and one for `zfs mount`, and a directory.
fn site() -> Result<(Site, PathBuf)> {
    let site = Site::create("single", 128, "")?;
    site.ok("zfs create -o mountpoint=legacy tank/by-hand")?;
    site.ok("zfs create tank/by-itself")?;
    let place = site.devices().join("place");
    fs::create_dir(&place)?;
    Ok((site, place))
}

fn helper(site: &Site, words: &str) -> Result<Outcome> {
    let words: Vec<&str> = words.split(' ').collect();
    site.cenote().run("mount.zfs", &words)
}

fn refused(outcome: &Outcome, code: i32, text: &str) -> Result<()> {
    ensure!(
        outcome.code == Some(code) && outcome.stderr.contains(text),
        "{}",
        outcome.report()
    );
    Ok(())
}

#[test]
fn legacy_file_systems_are_mounted_by_mount() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let (site, place) = site()?;
    let at = place.display();
    let by_zfs = site.fails("zfs mount tank/by-hand")?;
    refused(&by_zfs, 1, "use mount(8) to mount this filesystem")?;
    // As mount(8) passes on a line of /etc/fstab.
    let line = format!("tank/by-hand {at} -o rw,noatime,nofail,_netdev,x-systemd.automount");
    helper(&site, &line)?.success()?;
    fs::write(place.join("file"), "contents")?;
    refused(&helper(&site, &line)?, 2, "filesystem already mounted")?;
    let listed = site.ok("zfs mount")?;
    ensure!(listed.contains("tank/by-hand"), "{listed}");
    for target in ["tank/by-hand", &at.to_string()] {
        let refusal = site.fails(&format!("zfs unmount {target}"))?;
        refused(&refusal, 1, "use umount(8) to unmount this filesystem")?;
    }
    // It stays when all that ZFS mounts is unmounted.
    site.ok("zfs unmount -a")?;
    let listed = site.ok("zfs mount")?;
    ensure!(
        listed.lines().count() == 1 && listed.contains("by-hand"),
        "{listed}"
    );
    site.ok(&format!("cenote unmount {at}"))?;
    ensure!(!place.join("file").exists());
    helper(&site, &format!("-o ro tank/by-hand {at}"))?.success()?;
    ensure!(fs::read(place.join("file"))? == b"contents");
    ensure!(fs::write(place.join("other"), "").is_err());
    site.ok(&format!("cenote unmount {at}"))?;
    // A snapshot stays read-only, which mount(8) should say.
    site.ok("zfs snapshot tank/by-hand@one")?;
    helper(&site, &format!("tank/by-hand@one {at}"))?.success()?;
    helper(&site, &format!("-o remount,ro tank/by-hand@one {at}"))?.success()?;
    let line = format!("-o remount,rw tank/by-hand@one {at}");
    refused(&helper(&site, &line)?, 2, "a snapshot is read-only")?;
    site.ok(&format!("cenote unmount {at}"))?;
    refused(&helper(&site, &line)?, 2, "not currently mounted")?;
    site.finish()
}

#[test]
fn what_cannot_be_mounted_is_told() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let (site, place) = site()?;
    let at = place.display();
    site.ok("zfs create -V 8M tank/volume")?;
    let try_to = |words: &str| helper(&site, &words.replace("AT", &at.to_string()));
    let by_zfs = "Use 'zfs set mountpoint=legacy' or 'zfs mount tank/by-itself'.";
    refused(&try_to("tank/by-itself AT -o rw")?, 1, by_zfs)?;
    for name in [
        "tank/volume",
        "tank/none",
        "tank/by-hand@none",
        "other/pool",
        "no name",
    ] {
        let outcome = site.cenote().run("mount.zfs", &[name, &at.to_string()])?;
        refused(&outcome, 1, "unable to open the dataset")?;
    }
    let unknown = "cannot be mounted due to invalid option 'bogus'.";
    refused(&try_to("tank/by-hand AT -o rw,bogus")?, 1, unknown)?;
    refused(
        &try_to("tank/by-hand AT -o remount,ro")?,
        2,
        "not currently mounted",
    )?;
    let absent = try_to("tank/by-hand AT/absent")?;
    refused(
        &absent,
        2,
        "canonicalization error: No such file or directory",
    )?;
    refused(&try_to("tank/by-hand")?, 1, "missing mountpoint argument")?;
    refused(&try_to("-z tank/by-hand AT")?, 1, "Invalid option 'z'")?;
    // Nothing but the look at it.
    let shown = try_to("-f -v tank/by-hand AT")?.success()?.text();
    ensure!(shown.contains("dataset:    \"tank/by-hand\""), "{shown}");
    ensure!(!site.ok("zfs mount")?.contains("by-hand"));
    try_to("-s tank/by-hand AT -o rw,bogus")?.success()?;
    ensure!(site.ok("zfs mount")?.contains("by-hand"));
    // `zfs mount` itself calls it so.
    try_to("tank/by-itself AT -o zfsutil")?.success()?;
    site.ok(&format!("cenote unmount {at}"))?;
    // A device of the pool stands for its root file system.
    site.ok("zfs unmount -a")?;
    let device = site.devices().join("d0.img");
    let line = format!("-o zfsutil,abc -s {} {at}", device.display());
    helper(&site, &line)?.success()?;
    let listed = site.ok("zfs mount")?;
    ensure!(
        listed.contains(&format!("tank                            {at}\n")),
        "{listed}"
    );
    site.ok(&format!("cenote unmount {at}"))?;
    site.finish()
}

/// What options of a mount overrule is shown as temporary, until a property is set.
#[test]
fn options_of_a_mount_are_temporary() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 128, "")?;
    site.ok("zfs create tank/a")?;
    site.ok("zfs unmount tank/a")?;
    site.ok("zfs mount -o noatime,noexec,nosuid,nodev,noxattr,ro tank/a")?;
    let shown = |properties: &str| {
        site.ok(&format!(
            "zfs get -H -o property,value,source {properties} tank/a"
        ))
    };
    let text = shown("atime,exec,setuid,devices,xattr,readonly")?;
    let wanted = [
        "atime\toff\ttemporary",
        "exec\toff\ttemporary",
        "setuid\toff\ttemporary",
        "devices\toff\ttemporary",
        "xattr\toff\ttemporary",
        "readonly\ton\ttemporary",
    ];
    ensure!(text.lines().eq(wanted), "{text}");
    site.ok("zfs set atime=on tank/a")?;
    let text = shown("atime,exec")?;
    ensure!(text == "atime\ton\tlocal\nexec\ton\tdefault\n", "{text}");
    site.ok("zfs unmount tank/a")?;
    site.ok("zfs set exec=off tank/a")?;
    site.ok("zfs mount -o exec tank/a")?;
    ensure!(shown("exec")? == "exec\ton\ttemporary\n");
    site.finish()
}
