//! Settings by their effect on a pool in use. Those of queues, prefetching and delays are tested
//! with a slow disk (`pool/tests/all/settings.rs`).

use anyhow::{Context, Result, ensure};
use cenote_tests::patience::wait_until;
use cenote_tests::pool;
use cenote_tests::random::Random;
use cenote_tests::site::Site;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

const MIB: u64 = 1 << 20;

fn noise(seed: u64, length: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length)?];
    Random::new(seed).fill(&mut bytes);
    Ok(bytes)
}

fn set(site: &Site, assignments: &str) -> Result<()> {
    site.ok(&format!("cenote settings set {assignments}"))?;
    Ok(())
}

/// A property of the pool that is a number.
fn figure(site: &Site, property: &str) -> Result<u64> {
    let text = site.ok(&format!("zpool get -Hpo value {property} tank"))?;
    text.trim().parse().with_context(|| text.clone())
}

fn device(site: &Site, number: u32) -> PathBuf {
    site.devices().join(format!("d{number}.img"))
}

#[test]
fn the_reserve_is_a_share_of_the_pool() -> Result<()> {
    let site = Site::create("single", 15 * 1024, "-O mountpoint=none")?;
    let available = || -> Result<u64> {
        let text = site.ok("zfs get -Hpo value available tank")?;
        Ok(text.trim().parse()?)
    };
    let usual = available()?;
    set(&site, "spa_slop_shift=6")?;
    let freed = available()? - usual;
    ensure!(freed == figure(&site, "size")? / 64, "{freed} bytes");
    set(&site, "spa_slop_shift=default")?;
    ensure!(available()? == usual);
    site.finish()
}

/// Bytes that were allocated on each of two vdevs by a file of 24 MiB.
fn spread(aliquot: &str) -> Result<[u64; 2]> {
    let site = Site::create("stripe", 256, "-O compression=off")?;
    set(&site, &format!("metaslab_aliquot={aliquot}"))?;
    let allocated = || -> Result<[u64; 2]> {
        site.ok("zpool sync tank")?;
        let list = site.ok("zpool list -Hpv tank")?;
        let tops = list.lines().filter(|line| {
            let name = line.split('\t').nth(1).unwrap_or_default();
            name.ends_with("d0.img") || name.starts_with("mirror")
        });
        let bytes: Vec<u64> = tops
            .filter_map(|line| line.split('\t').nth(3)?.parse().ok())
            .collect();
        let bytes: [u64; 2] = bytes.try_into().ok().with_context(|| list.clone())?;
        Ok(bytes)
    };
    let before = allocated()?;
    fs::write(site.path("tank").join("file"), noise(1, 24 * MIB)?)?;
    let after = allocated()?;
    site.finish()?;
    Ok([after[0] - before[0], after[1] - before[1]])
}

#[test]
fn vdevs_take_turns_after_so_many_bytes() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let even = spread("256K")?;
    ensure!(even[0].abs_diff(even[1]) < 6 * MIB, "{even:?}");
    let at_once = spread("512M")?;
    ensure!(
        at_once[0].abs_diff(at_once[1]) > 20 * MIB,
        "{at_once:?} with one turn"
    );
    Ok(())
}

#[test]
fn free_space_is_filled_with_the_word() -> Result<()> {
    const WORD: u64 = 0x0123_4567_89ab_cdef;
    let site = Site::create("single", 64, "-O mountpoint=none")?;
    set(&site, &format!("zfs_initialize_value={WORD}"))?;
    site.ok("zpool initialize -w tank")?;
    let bytes = fs::read(device(&site, 0))?;
    let words = bytes.chunks_exact(8);
    let filled = words.filter(|word| **word == WORD.to_le_bytes()).count();
    ensure!(filled * 8 > 40 << 20, "{filled} words");
    site.finish()
}

/// Each group waited for the time between two groups: 300 MB by 10 blocks each took hours.
#[test]
fn a_destruction_goes_on_by_so_many_blocks_at_once() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 256, "-O compression=off")?;
    site.ok("zfs create -o recordsize=4K tank/doomed")?;
    let file = site.path("tank/doomed").join("file");
    fs::write(file, noise(2, 8 * MIB)?)?;
    set(&site, "zfs_txg_timeout=3600 zfs_async_block_max_blocks=50")?;
    let group = |snapshot: &str| -> Result<u64> {
        site.ok(&format!("zfs snapshot tank@{snapshot}"))?;
        let text = site.ok(&format!("zfs get -Hpo value createtxg tank@{snapshot}"))?;
        Ok(text.trim().parse()?)
    };
    let before = group("before")?;
    site.ok("zfs destroy tank/doomed")?;
    wait_until("freed", || Ok(figure(&site, "freeing")? == 0))?;
    let groups = group("after")? - before;
    let least = 8 * MIB / 4096 / 50;
    ensure!(groups >= least, "{groups} groups, and not {least}");
    site.finish()
}

/// If the limit on freed blocks was reached just before the object set block, the position to
/// resume at was that of the meta-dnode's first block, and blocks were freed twice.
#[test]
fn a_destruction_goes_on_block_by_block() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 64, "")?;
    site.ok("zfs create tank/doomed")?;
    fs::write(site.path("tank/doomed").join("file"), noise(3, 300_000)?)?;
    set(&site, "zfs_txg_timeout=3600 zfs_async_block_max_blocks=1")?;
    site.ok("zpool sync tank")?;
    site.ok("zfs destroy tank/doomed")?;
    wait_until("freed", || Ok(figure(&site, "freeing")? == 0))?;
    site.ok("cenote verify --quiet tank")?;
    site.finish()
}

#[test]
fn copies_of_what_is_not_on_disk_wait_unless_told_otherwise() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 256, "-O compression=off")?;
    let root = site.path("tank");
    let copied = |name: &str| -> Result<u64> {
        let data = noise(3, 8 * MIB)?;
        fs::write(root.join(name), &data)?;
        let copy = root.join(format!("copy of {name}"));
        // The standard library copies by `copy_file_range`.
        fs::copy(root.join(name), &copy)?;
        ensure!(fs::read(&copy)? == data);
        site.ok("zpool sync tank")?;
        figure(&site, "bcloneused")
    };
    set(&site, "zfs_txg_timeout=3600 zfs_bclone_wait_dirty=0")?;
    site.ok("zpool sync tank")?;
    let at_once = copied("one")?;
    ensure!(at_once == 0, "{at_once} bytes are shared");
    set(&site, "zfs_bclone_wait_dirty=1")?;
    let waited = copied("two")?;
    ensure!(waited >= 8 * MIB, "{waited} bytes are shared");
    site.finish()
}

/// Every machine has less than an exabyte of memory available, and less than all of it.
#[test]
fn memory_that_is_wanted_for_others_is_given_back() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 256, "-O compression=off")?;
    let file = site.path("tank").join("file");
    fs::write(&file, noise(4, 64 * MIB)?)?;
    site.ok("zpool sync tank")?;
    let used = || -> Result<u64> {
        let status = site.ok("cenote daemon status --json")?;
        let status: serde_json::Value = serde_json::from_str(&status)?;
        status["memory_used"].as_u64().context("a number")
    };
    let before = used()?;
    ensure!(before > 60 * MIB, "{before} bytes are cached");
    set(&site, "zfs_arc_min=8M zfs_arc_sys_free=1E")?;
    wait_until("down to 32 MiB", || Ok(used()? <= 32 * MIB))?;
    set(&site, "zfs_arc_sys_free=default zfs_arc_min=default")?;
    ensure!(fs::read(&file)? == noise(4, 64 * MIB)?);
    site.finish()
}

/// A quarter of the limit is dirty sooner, so that groups are written before their time. That they
/// are not while memory is ample is seen on a simulated clock (`pool/tests/all/settings.rs`).
#[test]
fn less_may_be_dirty_while_memory_is_short() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 256, "-O compression=off")?;
    let limits = "zfs_txg_timeout=3600 zfs_dirty_data_max=256M zfs_arc_lotsfree_percent=0";
    set(&site, limits)?;
    site.ok("zpool sync tank")?;
    let stored = || -> Result<u64> { Ok(fs::metadata(device(&site, 0))?.blocks() * 512) };
    let before = stored()?;
    let root = site.path("tank");
    // 20 MiB are less than a fifth of 256 and more than one of 64.
    fs::write(root.join("file"), noise(5, 20 * MIB)?)?;
    ensure!(
        stored()? < before + 10 * MIB,
        "a group was written before its time"
    );
    set(&site, "zfs_arc_lotsfree_percent=100")?;
    wait_until("written, as if memory were ample", || {
        // A write triggers the check of the new limit.
        fs::write(root.join("more"), noise(6, 4096)?)?;
        Ok(stored()? > before + 10 * MIB)
    })?;
    site.finish()
}
