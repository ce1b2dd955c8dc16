//! `cargo xtask golden`: every golden pool compared with its manifest, as a table.

use anyhow::Result;
use cenote_tests::compare::{self, Tolerance};
use cenote_tests::golden::{self, Golden};
use cenote_tests::offline;
use cenote_tests::program::Cenote;
use cenote_tests::words::Words;
use std::process::ExitCode;
use std::time::Instant;

/// Differences of one pool that are shown.
const SHOWN_MAX: usize = 10;

/// Runs it with the words of its command line.
pub fn main(words: Words) -> ExitCode {
    let mut kinds: Vec<String> = words.collect();
    if kinds.is_empty() {
        kinds = golden::kinds();
    }
    println!(
        "{:<22}{:>9}{:>9}{:>13}{:>9}",
        "KIND", "DATASETS", "ENTRIES", "DIFFERENCES", "SECONDS"
    );
    let mut failed = 0;
    for kind in &kinds {
        let start = Instant::now();
        match check(kind) {
            Ok((datasets, entries, differences)) => {
                let count = differences.len();
                let seconds = start.elapsed().as_secs_f64();
                println!("{kind:<22}{datasets:>9}{entries:>9}{count:>13}{seconds:>9.2}");
                for difference in differences.iter().take(SHOWN_MAX) {
                    println!("    {difference}");
                }
                failed += usize::from(count > 0);
            }
            Err(error) => {
                println!("{kind:<22}{:>9}{:>9}{:>13}", "-", "-", "error");
                println!("    {error:#}");
                failed += 1;
            }
        }
    }
    println!("{} pools, {failed} failed", kinds.len());
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Datasets and entries of the pool, and what differs.
fn check(kind: &str) -> Result<(usize, usize, Vec<String>)> {
    let Some(golden) = Golden::find(kind)? else {
        anyhow::bail!("not here");
    };
    let cenote = Cenote::new()?;
    let wanted = &golden.manifest.datasets;
    let options = offline::options(&cenote, &golden)?;
    let found = offline::read_all(&cenote, &golden, &golden.devices()?, &options, wanted)?;
    let tolerance = Tolerance {
        hidden_xattrs: Vec::new(),
        ..Tolerance::of(kind, &golden.manifest)
    };
    let entries = found
        .values()
        .filter_map(|dataset| Some(dataset.entries.as_ref()?.len()));
    let differences = compare::datasets(wanted, &found, &tolerance);
    Ok((found.len(), entries.sum(), differences))
}
