//! Checkpoints by commands.

use anyhow::{Result, ensure};
use cenote_tests::pool;
use cenote_tests::site::Site;
use std::fs;

fn contains(text: &str, part: &str) -> Result<()> {
    ensure!(text.contains(part), "no '{part}' in: {text}");
    Ok(())
}

/// A day with a checkpoint: what is refused, what it takes, looking at it, going back to it, and
/// discarding another one over a crash.
#[test]
fn made_gone_back_to_and_discarded() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("mirror", 128, "")?;
    let fails = |line: &str, reason: &str| contains(&site.fails(line)?.stderr, reason);
    site.ok("zfs create tank/home")?;
    let home = site.path("tank/home");
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        (state >> 56) as u8
    };
    let noise: Vec<u8> = (0..3_000_000).map(|_| next()).collect();
    fs::write(home.join("letter"), &noise)?;
    let without = "cannot discard checkpoint in 'tank': checkpoint does not exist\n";
    fails("zpool checkpoint -d tank", without)?;
    fails(
        "zpool checkpoint -w tank",
        "--wait only valid when --discard also specified",
    )?;
    site.ok("zpool checkpoint tank")?;
    fails(
        "zpool checkpoint tank",
        "cannot checkpoint 'tank': checkpoint exists\n",
    )?;
    fails("zpool reguid tank", "checkpoint")?;
    let side = site.devices().join("d1.img");
    fails(
        &format!("zpool detach tank {}", side.display()),
        "checkpoint",
    )?;
    contains(&site.ok("zpool status tank")?, "checkpoint: created ")?;

    site.ok("zfs destroy -r tank/home")?;
    site.ok("zfs create tank/other")?;
    site.ok("zpool wait -t free tank")?;
    let kept = site.ok("zpool get -Hp -o value checkpoint tank")?;
    ensure!(kept.trim().parse::<u64>()? > 1_000_000, "{kept}");
    site.export()?;
    site.import("-o readonly=on --rewind-to-checkpoint")?;
    ensure!(fs::read(home.join("letter"))? == noise && !site.path("tank/other").exists());
    site.export()?;
    site.import("")?;
    ensure!(!home.exists(), "looking at a checkpoint changes nothing");
    site.export()?;
    site.judge()?;
    site.import("--rewind-to-checkpoint")?;
    ensure!(fs::read(home.join("letter"))? == noise);
    let status = site.ok("zpool status tank")?;
    ensure!(!status.contains("checkpoint"), "{status}");
    ensure!(!site.ok("zfs list -H -o name")?.contains("tank/other"));

    discarded_over_crashes(&site)?;
    ensure!(fs::read(home.join("letter"))? == b"in its place");
    site.finish()
}

fn discarded_over_crashes(site: &Site) -> Result<()> {
    site.ok("zpool checkpoint tank")?;
    fs::write(site.path("tank/home/letter"), b"in its place")?;
    site.ok("zpool sync tank")?;
    site.crash()?;
    site.import("-f")?;
    contains(&site.ok("zpool status tank")?, "checkpoint: created ")?;
    site.ok("zpool checkpoint -d tank")?;
    site.crash()?;
    site.import("-f")?;
    site.ok("zpool wait -t discard tank")?;
    ensure!(site.ok("zpool get -Hp -o value checkpoint tank")?.trim() == "-");
    let feature = site.ok("zpool get -H -o value feature@zpool_checkpoint tank")?;
    ensure!(feature.trim() == "enabled", "{feature}");
    site.ok("zpool checkpoint tank")?;
    site.ok("zpool checkpoint --discard --wait tank")?;
    let history = site.ok("zpool history tank")?;
    contains(&history, "zpool checkpoint --discard --wait tank\n")
}
