//! Scrubs, resilvers and the list of damaged files, by commands.

use anyhow::{Result, ensure};
use cenote_tests::pool;
use cenote_tests::referee;
use cenote_tests::repair::{self, Loss, Mishap};
use cenote_tests::site::Site;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// A share of `cargo xtask repair`. A mirror side that was away while the other was written to,
/// and came back at an import, was shown healthy, and nothing resilvered it.
#[test]
fn devices_are_mended() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    repair::case("mirror", Mishap::of(Loss::Stale), 1)?;
    repair::case("raidz2", Mishap::of(Loss::Noise), 2)?;
    repair::case("draid1", Mishap::with_crash(Loss::Noise), 3)
}

/// A short run of `cargo xtask chaos`. Devices that came back within milliseconds of each other
/// counted as complete when the scan of the first had ended, and a resilver was reported as active
/// without a thread.
#[test]
fn devices_that_come_and_go_at_once_are_mended() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let is_judged = false;
    cenote_tests::chaos::session(4, 1, is_judged).map(drop)
}

/// `zpool offline -f`, then `offline`: the device was faulted, `online` took no notice that it was
/// offline as well, and after `clear` it was OFFLINE.
#[test]
fn a_device_that_is_faulted_and_offline_comes_back() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("mirror", 128, "")?;
    let device = site.devices().join("d0.img").display().to_string();
    for command in ["offline -f", "offline", "online"] {
        site.ok(&format!("zpool {command} tank {device}"))?;
    }
    site.ok("zpool clear tank")?;
    let status = site.ok("zpool status tank")?;
    ensure!(status.contains("state: ONLINE"), "{status}");
    site.finish()
}

/// OpenZFS's tests of repair found these. A resilver and a scrub of damaged blocks began in pools
/// without the features for them. `zpool clear` silently changed nothing in a read-only pool. Such
/// a pool failed `zpool sync` of all pools and could not be destroyed.
#[test]
fn what_a_pool_cannot_is_refused() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let off = "-o feature@head_errlog=disabled -o feature@resilver_defer=disabled";
    let site = Site::create("single", 128, off)?;
    let refused = site.fails("zpool resilver tank")?;
    let reason = "cannot restart resilver on tank: this action requires the resilver_defer feature";
    ensure!(refused.stderr.contains(reason), "{}", refused.report());
    let refused = site.fails("zpool scrub -e tank")?;
    ensure!(
        refused.stderr.contains("head_errlog"),
        "{}",
        refused.report()
    );
    site.ok("zpool checkpoint tank")?;
    let scrub = site.cenote().run("zpool", &["scrub", "-w", "tank"])?;
    let warning = "will not scrub state that belongs to the checkpoint of pool 'tank'";
    ensure!(scrub.stderr.contains(warning), "{}", scrub.report());
    site.export()?;
    site.import("-o readonly=on")?;
    let refused = site.fails("zpool clear tank")?;
    ensure!(refused.stderr.contains("read-only"), "{}", refused.report());
    site.ok("zpool sync")?;
    // It is released, and unchanged.
    site.ok("zpool destroy tank")?;
    site.import("")?;
    site.finish()
}

/// A scrub of a period adds to what is known, and reads what was written then.
fn scrub_periods(site: &Site, named: impl Fn(&str) -> bool) -> Result<()> {
    site.ok("zpool scrub -w -E 2001-01-01 tank")?;
    let early = site.ok("zpool status -v tank")?;
    ensure!(named(&early) && early.contains("with 0 errors"), "{early}");
    site.ok("zpool scrub -w -S 2001-01-01 tank")?;
    let status = site.ok("zpool status -v tank")?;
    ensure!(
        named(&status) && status.contains("with 1 errors"),
        "{status}"
    );
    let refused = site.fails("zpool scrub -S yesterday tank")?;
    ensure!(
        refused.stderr.contains("invalid date"),
        "{}",
        refused.report()
    );
    Ok(())
}

/// The list of damaged files was lost with an export. And a paused scrub stays paused.
#[test]
fn what_a_scrub_found_survives_an_export() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 128, "")?;
    let root = site.path("tank");
    fs::write(root.join("good"), vec![1; 300_000])?;
    fs::write(root.join("bad"), vec![2; 300_000])?;
    site.ok("zpool sync tank")?;
    let number = std::os::unix::fs::MetadataExt::ino(&fs::metadata(root.join("bad"))?);
    let listed = site.ok(&format!("cenote inspect blocks -j tank {number}"))?;
    let data = listed.lines().find(|line| line.contains("\"level\":0"));
    let block: serde_json::Value = serde_json::from_str(data.unwrap_or_default())?;
    let offset = block["copies"][0]["offset"].as_u64().unwrap_or_default();
    ensure!(offset > 0, "{block}");
    site.ok("zfs snapshot tank@s")?;
    let history = site.ok("zpool history -i tank")?;
    let snaps = "ioctl snapshot\n    input:\n        snaps:\n            tank@s\n";
    ensure!(
        history.contains("] snapshot tank@s (") && history.contains(snaps),
        "{history}"
    );
    let device = File::options()
        .write(true)
        .open(site.devices().join("d0.img"))?;
    device.write_all_at(&[9; 512], (4 << 20) + offset)?;
    site.ok("zpool scrub -w tank")?;
    let named = |status: &str| status.contains("/bad\n") && status.contains("tank@s:/bad\n");
    let status = site.ok("zpool status -v tank")?;
    ensure!(
        named(&status) && status.contains("with 1 errors"),
        "{status}"
    );
    scrub_periods(&site, named)?;
    // No copy of the data is left, so no resilver is due for the device.
    ensure!(!status.contains("resilver"), "{status}");
    site.export()?;
    site.import("")?;
    let status = site.ok("zpool status -v tank")?;
    ensure!(named(&status), "{status}");
    site.ok("zpool clear tank")?;
    let status = site.ok("zpool status -v tank")?;
    ensure!(status.contains("No known data errors"), "{status}");
    // Readers find it again, and what they found is kept, too.
    ensure!(fs::read(root.join("bad")).is_err());
    ensure!(fs::read(root.join("good"))? == vec![1; 300_000]);
    site.export()?;
    site.import("")?;
    let status = site.ok("zpool status -v tank")?;
    ensure!(status.contains("/bad\n"), "{status}");
    // Its blocks go at once: a file that is only removed may wait for the kernel to forget it.
    fs::File::create(root.join("bad"))?;
    fs::remove_file(root.join("bad"))?;
    site.ok("zfs destroy tank@s")?;
    site.ok("zpool scrub -e -w tank")?;
    let status = site.ok("zpool status -v tank")?;
    ensure!(status.contains("No known data errors"), "{status}");
    site.finish()
}

/// OpenZFS resumes a scrub that was paused or running when the pool was exported.
#[test]
fn scrubs_go_on_elsewhere() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("mirror", 512, "")?;
    site.ok("zfs create -o recordsize=4k -o compression=off tank/fs")?;
    let root = site.path("tank/fs");
    for number in 0..60 {
        fs::write(root.join(format!("f{number}")), vec![number; 1 << 20])?;
    }
    site.ok("zpool sync tank")?;
    site.ok("zpool scrub tank")?;
    site.export()?;
    let directory = site.devices().display().to_string();
    let opened = || -> Result<()> {
        let opened = referee::run(&["import", &directory, "tank"])?;
        opened.map_or(Ok(()), |opened| opened.map(drop))
    };
    opened()?;
    site.import("")?;
    site.ok("zpool wait -t scrub tank")?;
    let status = site.ok("zpool status tank")?;
    ensure!(status.contains("scrub repaired 0B"), "{status}");
    site.ok("zpool scrub tank")?;
    let paused = site.ok("zpool scrub -p tank");
    let status = site.ok("zpool status tank")?;
    let is_paused = paused.is_ok();
    ensure!(
        !is_paused || status.contains("scrub paused since"),
        "{status}"
    );
    site.export()?;
    opened()?;
    site.import("")?;
    let status = site.ok("zpool status tank")?;
    ensure!(
        !is_paused || status.contains("scrub paused since"),
        "{status}"
    );
    if is_paused {
        site.ok("zpool scrub -w tank")?;
    }
    let status = site.ok("zpool status tank")?;
    ensure!(status.contains("scrub repaired 0B"), "{status}");
    site.finish()
}
