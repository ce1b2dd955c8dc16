//! Every golden pool, read without a mount by `cenote manifest`, compared file by file.

use anyhow::{Context, Result, ensure};
use cenote_tests::compare::{self, Tolerance};
use cenote_tests::golden::Golden;
use cenote_tests::manifest;
use cenote_tests::program::Cenote;
use cenote_tests::{offline, test_each_golden_pool};

/// More differences than this are counted only.
const SHOWN_MAX: usize = 30;

fn compare_without_mounts(kind: &str) -> Result<()> {
    let Some(golden) = Golden::find(kind)? else {
        return Ok(());
    };
    let cenote = Cenote::new()?;
    let wanted = &golden.manifest.datasets;
    let options = offline::options(&cenote, &golden)?;
    let found = offline::read_all(&cenote, &golden, &golden.devices()?, &options, wanted)?;
    let tolerance = Tolerance {
        // `cenote manifest` reads the pool itself: no kernel hides anything.
        hidden_xattrs: Vec::new(),
        ..Tolerance::of(kind, &golden.manifest)
    };
    report(&compare::datasets(wanted, &found, &tolerance))
}

fn report(differences: &[String]) -> Result<()> {
    let shown = &differences[..differences.len().min(SHOWN_MAX)];
    ensure!(
        differences.is_empty(),
        "{} differences:\n{}",
        differences.len(),
        shown.join("\n")
    );
    Ok(())
}

/// Without the sums the same entries come much faster: everything else is there.
#[test]
fn sums_are_on_request() -> Result<()> {
    let golden = Golden::find("quotas")?.context("the repository carries this pool")?;
    let cenote = Cenote::new()?;
    let name = format!("{}/q", golden.manifest.pool);
    let devices = golden.devices()?;
    let devices = devices.to_str().context("a path in UTF-8")?;
    let output = cenote.ok(&format!("cenote manifest -d {devices} {name}"))?;
    ensure!(!output.contains("sha256"), "sums were not asked for");
    let have = manifest::parse_dataset(&serde_json::from_str(&output)?)?;
    let tolerance = Tolerance {
        loose: vec!["sha256".into(), "data".into(), "xattrs".into()],
        ..Tolerance::default()
    };
    let want = &golden.manifest.datasets[&name];
    report(&compare::dataset(want, &have, &tolerance))
}

test_each_golden_pool!(compare_without_mounts);
