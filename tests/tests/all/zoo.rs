//! A small share of the pool zoo: `cargo xtask zoo --mutants 1000` runs the rest, with `--write`
//! that of mutants which are written to.

use anyhow::{Context, Result, ensure};
use cenote_tests::golden::Golden;
use cenote_tests::mutate::Devices;
use cenote_tests::mutate::structure::Structure;
use cenote_tests::program::Cenote;
use cenote_tests::random::Random;
use cenote_tests::zoo::{self, Way};
use cenote_tests::{pool, test_golden_pools};
use std::ops::Range;
use std::time::Duration;

/// Mutants of each kind.
const MUTANTS: u64 = 12;

/// So many are opened for writing too, which takes a daemon and a mount each.
const WRITTEN_MUTANTS: u64 = 4;

/// Another seed each time would find more, and would fail changes that did nothing wrong.
const SEED: u64 = 1;

/// How long one command may take.
const TIME: Duration = Duration::from_secs(60);

fn smoke(kind: &str) -> Result<()> {
    run(kind, 0..MUTANTS, Way::Reading)
}

fn smoke_of_writing(kind: &str) -> Result<()> {
    match pool::can_mount() {
        true => run(kind, 0..WRITTEN_MUTANTS, Way::Writing),
        false => Ok(()),
    }
}

fn run(kind: &str, numbers: Range<u64>, way: Way) -> Result<()> {
    let summary = zoo::run_kind(kind, SEED, numbers, (way, TIME))?;
    for failure in &summary.failures {
        eprintln!(
            "mutant {}: {}\n{}",
            failure.number, failure.damage, failure.report
        );
        eprintln!(
            "again: cargo xtask zoo {}--seed {SEED} --mutant {} {kind}",
            if way == Way::Writing { "--write " } else { "" },
            failure.number
        );
    }
    ensure!(
        summary.failures.is_empty(),
        "{} promises broken",
        summary.failures.len()
    );
    Ok(())
}

test_golden_pools! { smoke =>
    quotas "quotas", block_cloning "block-cloning", dedup_legacy "dedup-legacy",
    mirror_offline "mirror-offline", names_folding "names-folding", raidz1_3 "raidz1-3",
    zvol "zvol", dirty_zil "dirty-zil", snapshots_clones "snapshots-clones",
    device_removal "device-removal", version28 "version28", large_dnodes "large-dnodes",
}

mod mutants_that_are_written_to {
    use super::*;

    test_golden_pools! { smoke_of_writing =>
        quotas "quotas", raidz1_3 "raidz1-3", snapshots_clones "snapshots-clones",
        dedup_legacy "dedup-legacy", dirty_zil "dirty-zil", version28 "version28",
    }
}

/// Mutants that once took a reader nearly forever: gangs and blocks of pointers that lead to
/// themselves, a tree of pointers that never lead to data, and a list that claims to be longer than
/// its object.
#[test]
fn traps_are_left_again() -> Result<()> {
    let quotas = [31, 111, 127].map(|number| ("quotas", number));
    for (kind, number) in quotas.into_iter().chain([("mirror-offline", 698)]) {
        let summary = zoo::run_kind(kind, SEED, number..number + 1, (Way::Reading, TIME))?;
        ensure!(
            summary.failures.is_empty(),
            "mutant {number} of {kind}: {:?}",
            summary.failures
        );
    }
    Ok(())
}

/// Mutants that once made a thread of the daemon panic: an uberblock of the last txg that can be
/// counted, a file of 2^64 blocks that is truncated, and one that says to use 2^63 sectors.
#[test]
fn absurd_numbers_are_survived_by_writers() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let striped = [4, 38].map(|number| ("stripe-mixed-sizes", number));
    for (kind, number) in striped.into_iter().chain([("single-default", 27)]) {
        let summary = zoo::run_kind(kind, 2, number..number + 1, (Way::Writing, TIME))?;
        ensure!(
            summary.failures.is_empty(),
            "mutant {number} of {kind}: {:?}",
            summary.failures
        );
    }
    Ok(())
}

/// The mutator leaves moved blocks intact in all copies, with correct parity and padding: otherwise
/// its mutants would only test repair.
fn moved(kind: &str) -> Result<()> {
    let Some(golden) = Golden::find(kind)? else {
        return Ok(());
    };
    let cenote = Cenote::new()?;
    let directory = cenote.subdirectory("devices")?;
    let devices = Devices::open(golden.copy_to(&directory)?)?;
    let structure = Structure::read(&devices)?.context("every pool has a structure")?;
    let pool = golden.manifest.pool.as_str();
    let place = directory.to_str().context("a path in UTF-8")?;
    for seed in 0..3 {
        let mutant = structure.harmless_mutant(&mut Random::new(seed))?;
        let undo = devices.apply(&mutant)?;
        let words = ["verify", "--json", "--all-copies", "-d", place, pool];
        let outcome = cenote.run("cenote", &words)?;
        let report: serde_json::Value = serde_json::from_slice(&outcome.stdout)
            .with_context(|| format!("{kind} {seed}: {}", outcome.report()))?;
        let damaged = report["damaged"].as_array().context("a list")?;
        ensure!(damaged.is_empty(), "{kind} {seed}: {damaged:?}");
        ensure!(report["bad_copies"] == 0, "{kind} {seed}: {report}");
        let space = report["space"].to_string();
        ensure!(
            space.contains("referenced but not allocated"),
            "{kind} {seed}: nothing was moved: {space}"
        );
        devices.restore(undo)?;
    }
    Ok(())
}

mod moved_blocks_are_whole {
    use super::*;

    test_golden_pools! { moved =>
        mirror2 "mirror2", raidz1_3 "raidz1-3", raidz3_8 "raidz3-8", draid2 "draid2",
        raidz_expanded "raidz-expanded", raidz_expanding "raidz-expanding",
        raidz2_ashift12_5 "raidz2-ashift12-5", ashift13 "ashift13",
    }
}
