//! Changes of damaged blocks: they fail one by one, and the pool keeps working.
//!
//! The damage is in indirect blocks, which syncing needs to change or free the blocks below them.
//! Such a change used to be accepted, and suspended the pool when it was synced, again after each
//! import.

use anyhow::{Context, Result, ensure};
use cenote_tests::patience::wait_until;
use cenote_tests::pool;
use cenote_tests::random::Random;
use cenote_tests::site::{Sector, Site};
use rustix::io::Errno;
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Eight records, below one indirect block.
const FILE_BYTES: usize = 1 << 20;

fn errno<T>(result: io::Result<T>) -> Option<Errno> {
    let number = result.err()?.raw_os_error()?;
    Some(Errno::from_raw_os_error(number))
}

/// The places of a file's indirect block, which must be on disk.
fn indirect_block(site: &Site, dataset: &str, number: u64) -> Result<Vec<u64>> {
    let listed = site.ok(&format!("cenote inspect blocks -j {dataset} {number}"))?;
    let top: Value = serde_json::from_str(listed.lines().next().context("a block")?)?;
    ensure!(top["level"] == 1, "{top}");
    let copies = top["copies"].as_array().context("its copies")?;
    let offsets = copies.iter().map(|copy| copy["offset"].as_u64());
    offsets.collect::<Option<_>>().context("their offsets")
}

/// The damaged pool, and what undoes the damage.
struct Damaged {
    site: Site,
    healing: Vec<(u64, Sector)>,
}

/// A pool with a file system `tank/fs` that has these files, whose indirect blocks are damaged.
fn damaged(names: &[&str]) -> Result<Damaged> {
    let site = Site::create("single", 128, "")?;
    site.ok("zfs create tank/fs")?;
    let root = site.path("tank/fs");
    let mut contents = vec![0; FILE_BYTES];
    for (seed, name) in (0..).zip(names) {
        Random::new(seed).fill(&mut contents);
        fs::write(root.join(name), &contents)?;
    }
    site.ok("zpool sync tank")?;
    let mut places = Vec::new();
    for name in names {
        let number = fs::metadata(root.join(name))?.ino();
        places.extend(indirect_block(&site, "tank/fs", number)?);
    }
    let spoiled: Vec<_> = places.iter().map(|place| (*place, [0x55; 512])).collect();
    site.export()?;
    let healing = site.exchange(&spoiled)?;
    site.import("")?;
    Ok(Damaged { site, healing })
}

/// The pool takes changes, and says what is damaged.
fn check_alive(site: &Site, root: &Path) -> Result<()> {
    fs::write(root.join("new"), "it takes changes")?;
    site.ok("zpool sync tank")?;
    ensure!(fs::read(root.join("new"))? == b"it takes changes");
    let status = site.ok("zpool status -v tank")?;
    // Under load the same errors are so many in a short time that the device counts as failing.
    let states = ["state: ONLINE", "state: DEGRADED"];
    let is_alive = states.iter().any(|state| status.contains(state));
    ensure!(is_alive && status.contains("Permanent errors"), "{status}");
    Ok(())
}

#[test]
fn contents_below_damage_are_not_changed() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let Damaged { site, .. } = damaged(&["file"])?;
    let root = site.path("tank/fs");
    let file = OpenOptions::new().write(true).open(root.join("file"))?;
    let record = vec![1; 128 << 10];
    for (what, offset, bytes) in [
        ("a record", 128 << 10, record.len()),
        ("a part of one", 1000, 10),
        ("behind the end", FILE_BYTES as u64, record.len()),
        ("a part of one behind the end", FILE_BYTES as u64, 10),
    ] {
        let written = file.write_all_at(&record[..bytes], offset);
        ensure!(errno(written) == Some(Errno::IO), "{what} was taken");
    }
    for size in [300_000, 0] {
        ensure!(
            errno(file.set_len(size)) == Some(Errno::IO),
            "cut to {size}"
        );
    }
    let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    let punched = rustix::fs::fallocate(&file, punch, 1000, 500_000);
    ensure!(punched == Err(Errno::IO), "{punched:?}");
    ensure!(file.metadata()?.len() == FILE_BYTES as u64);
    drop(file);
    check_alive(&site, &root)?;
    site.export()?;
    site.import("")?;
    ensure!(errno(fs::read(root.join("file"))) == Some(Errno::IO));
    check_alive(&site, &root)?;
    site.abandon();
    Ok(())
}

/// Damaged files lose their names, and wait in the delete queue for better times.
#[test]
fn damaged_files_are_removed() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let Damaged { site, healing } = damaged(&["removed", "held", "replaced"])?;
    let root = site.path("tank/fs");
    fs::remove_file(root.join("removed"))?;
    let held = File::open(root.join("held"))?;
    fs::remove_file(root.join("held"))?;
    drop(held);
    fs::write(root.join("other"), "other")?;
    fs::rename(root.join("other"), root.join("replaced"))?;
    check_alive(&site, &root)?;
    ensure!(fs::read(root.join("replaced"))? == b"other");
    // The next mount retries them, and succeeds in any case.
    site.export()?;
    site.import("")?;
    check_alive(&site, &root)?;
    ensure!(fs::read_dir(&root)?.count() == 2, "names came back");
    site.export()?;
    site.exchange(&healing)?;
    site.import("")?;
    site.ok("zpool sync tank")?;
    let referenced = number(&site, "zfs get -Hp -o value referenced tank/fs")?;
    ensure!(referenced < 1 << 20, "{referenced} bytes are still there");
    // So many errors may have made the device count as failing.
    site.ok("zpool clear tank")?;
    site.finish()
}

fn number(site: &Site, line: &str) -> Result<u64> {
    Ok(site.ok(line)?.trim_end().parse()?)
}

fn freeing(site: &Site) -> Result<u64> {
    site.ok("zpool sync tank")?;
    number(site, "zpool get -Hp -o value freeing tank")
}

/// Freeing a destroyed file system stops at an unreadable block, and resumes there when it is
/// readable.
#[test]
fn destroyed_file_systems_wait_for_what_cannot_be_read() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let names = ["a", "b", "c", "d", "e"];
    let Damaged { site, healing } = damaged(&names)?;
    site.ok("zfs create tank/other")?;
    fs::write(site.path("tank/other").join("file"), vec![1; 1 << 20])?;
    site.ok("zfs destroy tank/fs")?;
    let begun = freeing(&site)?;
    site.ok("zfs destroy tank/other")?;
    wait_until("stalled", || Ok(freeing(&site)? == freeing(&site)?))?;
    let stalled = freeing(&site)?;
    ensure!(
        stalled > 4 << 20,
        "{begun} bytes to be freed, {stalled} left"
    );
    fs::write(site.path("tank").join("new"), "it takes changes")?;
    // The third is well again: all before the fourth can be freed.
    site.export()?;
    site.exchange(&healing[..healing.len() * 3 / names.len()])?;
    site.import("")?;
    wait_until("less", || Ok(freeing(&site)? < stalled))?;
    ensure!(freeing(&site)? > 1 << 20);
    site.export()?;
    site.exchange(&healing)?;
    site.import("")?;
    wait_until("free", || Ok(freeing(&site)? == 0))?;
    ensure!(number(&site, "zpool get -Hp -o value leaked tank")? == 0);
    // The device may have made so many errors meanwhile that it counts as failing.
    site.ok("zpool clear tank")?;
    site.finish()
}

/// As zfs(4) has it: the space below what cannot be read is given up for good.
#[test]
fn a_setting_gives_up_what_cannot_be_read() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let Damaged { site, .. } = damaged(&["a", "b", "c"])?;
    site.ok("zfs destroy tank/fs")?;
    ensure!(freeing(&site)? > 0);
    site.ok("cenote settings set zfs_free_leak_on_eio=1")?;
    wait_until("free", || Ok(freeing(&site)? == 0))?;
    let leaked = number(&site, "zpool get -Hp -o value leaked tank")?;
    let expected = 3 * FILE_BYTES as u64;
    ensure!(
        (expected..expected + (64 << 10)).contains(&leaked),
        "{leaked}"
    );
    site.export()?;
    site.import("")?;
    ensure!(number(&site, "zpool get -Hp -o value leaked tank")? == leaked);
    // Leaked space is allocated without an owner, which the referee takes for an error.
    site.abandon();
    Ok(())
}
