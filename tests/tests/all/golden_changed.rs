//! Golden pools that are changed a little: what OpenZFS made stays, and OpenZFS finds no fault.

use anyhow::{Context, Result, ensure};
use cenote_tests::golden::Golden;
use cenote_tests::manifest::Entries;
use cenote_tests::pool;
use cenote_tests::referee::judge_golden;
use cenote_tests::site::{self, Site};
use cenote_tests::{mounted, test_golden_pools};
use std::fs;
use std::path::Path;

/// File systems of a pool that are changed; the others only have to stay.
const CHANGED_MAX: usize = 4;

fn change(kind: &str) -> Result<()> {
    let Some(golden) = Golden::find(kind)? else {
        return Ok(());
    };
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::new(&golden.manifest.pool)?;
    golden.copy_to(site.devices())?;
    site.import(if kind.starts_with("dirty") {
        "-N -f"
    } else {
        "-N"
    })?;
    change_all(&site, &file_systems(&golden))?;
    site.judged_by(|devices| judge_golden(devices, &golden));
    Ok(())
}

/// Changes file systems of the imported pool, and exports it. They must be the same after another
/// import, which is undone too.
fn change_all(site: &Site, datasets: &[String]) -> Result<()> {
    let directory = site.cenote().subdirectory("mount")?;
    let mut expected = Vec::new();
    for dataset in datasets {
        pool::mount(site.cenote(), dataset)?;
        let changed = change_files(&directory).with_context(|| dataset.clone());
        pool::unmount(site.cenote(), &directory)?;
        expected.push(changed?);
    }
    site.export()?;
    site.import("-N")?;
    for (dataset, before) in datasets.iter().zip(&expected) {
        pool::mount(site.cenote(), dataset)?;
        let after = mounted::walk(&directory);
        pool::unmount(site.cenote(), &directory)?;
        site::same(before, &after?).with_context(|| dataset.clone())?;
    }
    site.export()
}

/// Pools from before features, or with few of them, that get all: what they held stays, and what
/// needs the features can be made.
fn upgrade(kind: &str) -> Result<()> {
    let Some(golden) = Golden::find(kind)? else {
        return Ok(());
    };
    if !pool::can_mount() {
        return Ok(());
    }
    let name = &golden.manifest.pool;
    let site = Site::new(name)?;
    golden.copy_to(site.devices())?;
    site.import("-N")?;
    let told = site.ok(&format!("zpool upgrade {name}"))?;
    let from = format!("Successfully upgraded '{name}' from version 28 to feature flags.\n");
    ensure!(told.contains(&from) == (kind == "version28"), "{told}");
    ensure!(told.contains("\n  skein\n"), "{told}");
    let version = site.ok(&format!("zpool get -Ho value version {name}"))?;
    ensure!(version == "-\n", "{version}");
    site.ok(&format!(
        "zfs create -u -o checksum=skein -o compression=zstd -o dnodesize=auto {name}/new"
    ))?;
    let mut datasets = file_systems(&golden);
    datasets.push(format!("{name}/new"));
    change_all(&site, &datasets)?;
    site.import("-N")?;
    let again = site.ok(&format!("zpool upgrade {name}"))?;
    ensure!(again.contains("already has all supported"), "{again}");
    site.export()?;
    site.judge()
}

test_golden_pools! { upgrade =>
    upgraded_version28 "version28", upgraded_legacy_features_off "legacy-features-off",
}

/// One feature alone makes a pool of version 28 one with features, as OpenZFS does.
fn one_feature(kind: &str) -> Result<()> {
    let Some(golden) = Golden::find(kind)? else {
        return Ok(());
    };
    let name = &golden.manifest.pool;
    let site = Site::new(name)?;
    golden.copy_to(site.devices())?;
    site.import("-N")?;
    site.ok(&format!("zpool set feature@bookmarks=enabled {name}"))?;
    let properties = "version,feature@bookmarks,feature@extensible_dataset,feature@zstd_compress";
    let values = site.ok(&format!("zpool get -Ho value {properties} {name}"))?;
    ensure!(values == "-\nenabled\nenabled\ndisabled\n", "{values}");
    site.export()?;
    site.judge()
}

test_golden_pools! { one_feature => one_feature_version28 "version28" }

/// File systems without keys, the first few of the manifest.
fn file_systems(golden: &Golden) -> Vec<String> {
    let keys = &golden.manifest.keys;
    let is_open = |name: &str| {
        let below = |root: &String| name == root || name.starts_with(&format!("{root}/"));
        !name.contains('@') && !keys.keys().any(below)
    };
    let with_files = golden.manifest.datasets.iter();
    let with_files = with_files.filter(|(name, set)| set.entries.is_some() && is_open(name));
    let names = with_files.map(|(name, _)| name.clone());
    names.take(CHANGED_MAX).collect()
}

/// Makes, changes and removes; what else was there must be the same afterwards.
fn change_files(root: &Path) -> Result<Entries> {
    let before = mounted::walk(root)?;
    let new = root.join("cenote-was-here");
    fs::create_dir(&new).context("mkdir")?;
    for number in 0..20_usize {
        let path = new.join(format!("file-{number}"));
        fs::write(&path, vec![number as u8; number * 9_000]).context("write")?;
    }
    fs::rename(new.join("file-3"), new.join("file-4")).context("rename")?;
    fs::remove_file(new.join("file-5")).context("unlink")?;
    std::os::unix::fs::symlink("file-6", new.join("link")).context("symlink")?;
    let after = mounted::walk(root)?;
    for (name, entry) in &before {
        // The root's times changed with its names.
        let is_same = name == "." || after.get(name) == Some(entry);
        ensure!(is_same, "{name} changed to {:?}", after.get(name));
    }
    ensure!(after.len() == before.len() + 20, "{} entries", after.len());
    Ok(after)
}

test_golden_pools! { change =>
    raidz1_3 "raidz1-3", mirror_offline "mirror-offline", names_folding "names-folding",
    quotas "quotas", block_cloning "block-cloning", dedup_legacy "dedup-legacy",
    single_default "single-default", special_vdev "special-vdev", draid2 "draid2",
    snapshots_clones "snapshots-clones", encryption "encryption",
    raidz_expanded "raidz-expanded", raidz_expanding "raidz-expanding", ashift13 "ashift13",
    large_dnodes "large-dnodes", legacy_features_off "legacy-features-off", dedup "dedup",
    recordsizes "recordsizes", zvol "zvol", compression "compression",
    device_removal "device-removal", version28 "version28",
    dirty_zil "dirty-zil", dirty_zil_slog "dirty-zil-slog",
}
