//! A small share of the pool zoo: `cargo xtask zoo --mutants 1000` runs the rest.

use anyhow::{Result, ensure};
use cenote_tests::{test_golden_pools, zoo};
use std::time::Duration;

/// Mutants of each kind.
const MUTANTS: u64 = 12;

/// Another seed each time would find more, and would fail changes that did nothing wrong.
const SEED: u64 = 1;

fn smoke(kind: &str) -> Result<()> {
    let summary = zoo::run_kind(kind, SEED, 0..MUTANTS, Duration::from_secs(60))?;
    for failure in &summary.failures {
        eprintln!(
            "mutant {}: {}\n{}",
            failure.number, failure.damage, failure.report
        );
        eprintln!(
            "again: cargo xtask zoo --seed {SEED} --mutant {} {kind}",
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
