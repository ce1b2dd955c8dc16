//! Blocks that are put together from pieces, where no space in one piece is left.

use anyhow::{Context, Result, ensure};
use cenote_tests::pool;
use cenote_tests::random::Random;
use cenote_tests::site::Site;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Random::new(seed).fill(&mut bytes);
    bytes
}

/// Pieces of pieces: a third of a large block fits into no hole either. That used to suspend the
/// pool, as if it were full. So did freeing such a block whose header is damaged.
#[test]
fn large_blocks_are_spread_over_small_holes() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 512, "-O compression=off -O recordsize=1M")?;
    let root = site.path("tank");
    let small = |number: u64| root.join(format!("small{number}"));
    for number in 0..330 {
        fs::write(small(number), noise(number, 1 << 20))?;
    }
    site.ok("zpool sync tank")?;
    for number in (0..330).step_by(2) {
        fs::remove_file(small(number))?;
    }
    // What was freed is free three groups later.
    for _ in 0..4 {
        site.ok("zpool sync tank")?;
    }
    site.ok("zfs create -o recordsize=16M tank/large")?;
    let large = site.path("tank/large").join("file");
    let contents = noise(1000, 128 << 20);
    fs::write(&large, &contents)?;
    site.ok("zpool sync tank")?;
    let number = fs::metadata(&large)?.ino();
    let listed = site.ok(&format!("cenote inspect blocks -j tank/large {number}"))?;
    let blocks = listed.lines().map(serde_json::from_str);
    let blocks = blocks.collect::<Result<Vec<Value>, _>>()?;
    let is_gang = |copy: &Value| copy["gang"] == true;
    let copies = |block: &Value| block["copies"].as_array().cloned().unwrap_or_default();
    let headers: Vec<Value> = blocks.iter().flat_map(copies).filter(is_gang).collect();
    ensure!(!headers.is_empty(), "every block found room: {listed}");
    site.export()?;
    site.judge()?;
    site.import("")?;
    ensure!(fs::read(&large)? == contents, "the contents changed");

    site.export()?;
    for header in &headers {
        let place = header["offset"].as_u64().context("an offset")?;
        site.exchange(&[(place, [0x55; 512])])?;
    }
    site.import("")?;
    fs::remove_file(&large)?;
    fs::write(root.join("new"), "it takes changes")?;
    site.ok("zpool sync tank")?;
    let health = site.ok("zpool list -H -o health tank")?;
    ensure!(health == "ONLINE\n", "{health}");
    site.abandon();
    Ok(())
}
