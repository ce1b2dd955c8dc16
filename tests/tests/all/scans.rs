//! Scrubs, resilvers and the list of damaged files, by commands.

use anyhow::{Result, ensure};
use cenote_tests::pool;
use cenote_tests::referee;
use cenote_tests::repair::{self, Mishap};
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
    repair::case("mirror", Mishap::Stale, 1)?;
    repair::case("raidz2", Mishap::Noise, 2)?;
    repair::case("draid1", Mishap::Crash, 3)
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

/// OpenZFS goes on with a scrub that was paused or under way when the pool was exported.
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
