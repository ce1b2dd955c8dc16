//! Pools of big-endian hosts. OpenZFS writes in the host's order and reads both; the golden pools
//! come from little-endian hosts, so their metadata is rewritten in the other order here, block
//! by block, up to the uberblock (`mutate.rs` has `zdb` read the result). All files must be
//! as before.

use anyhow::{Context, Result, ensure};
use cenote_tests::compare::{self, Tolerance};
use cenote_tests::golden::Golden;
use cenote_tests::mutate::Devices;
use cenote_tests::mutate::structure::Structure;
use cenote_tests::offline;
use cenote_tests::program::Cenote;
use cenote_tests::test_golden_pools;

fn swapped(kind: &str) -> Result<()> {
    let Some(golden) = Golden::find(kind)? else {
        return Ok(());
    };
    let cenote = Cenote::new()?;
    let directory = cenote.subdirectory("devices")?;
    let devices = Devices::open(golden.copy_to(&directory)?)?;
    let structure = Structure::read(&devices)?.context("a pool of disks")?;
    let _stays = devices.apply(&structure.big_endian_mutant()?)?;
    let wanted = &golden.manifest.datasets;
    let options = offline::options(&cenote, &golden)?;
    let found = offline::read_all(&cenote, &golden, &directory, &options, wanted)?;
    let tolerance = Tolerance {
        hidden_xattrs: Vec::new(),
        ..Tolerance::of(kind, &golden.manifest)
    };
    let differences = compare::datasets(wanted, &found, &tolerance);
    ensure!(
        differences.is_empty(),
        "{} differences, the first: {}",
        differences.len(),
        differences[0]
    );
    Ok(())
}

test_golden_pools! { swapped =>
    quotas "quotas", names_folding "names-folding", block_cloning "block-cloning",
    dedup_legacy "dedup-legacy", mirror_offline "mirror-offline", zvol "zvol",
    snapshots_clones "snapshots-clones", ashift13 "ashift13", large_dnodes "large-dnodes",
    version28 "version28", single_default "single-default", checksums "checksums",
    compression "compression", recordsizes "recordsizes", device_removal "device-removal",
}
