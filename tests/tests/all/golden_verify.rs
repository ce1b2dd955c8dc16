//! `cenote verify` of every golden pool finds nothing, and of damaged ones names what is damaged.

use anyhow::{Context, Result, ensure};
use cenote_tests::golden::Golden;
use cenote_tests::mutate::Devices;
use cenote_tests::program::{Cenote, Outcome};
use cenote_tests::random::Random;
use cenote_tests::{offline, test_each_golden_pool};
use serde_json::Value;
use std::fs;
use std::path::Path;

fn verify(cenote: &Cenote, golden: &Golden, devices: &Path, more: &[&str]) -> Result<Outcome> {
    let options = offline::options(cenote, golden)?;
    let command = [&["verify", "--quiet"], more].concat();
    offline::read(
        cenote,
        devices,
        &options,
        &command,
        &[&golden.manifest.pool],
    )
}

fn nothing_is_found(kind: &str) -> Result<()> {
    let Some(golden) = Golden::find(kind)? else {
        return Ok(());
    };
    let cenote = Cenote::new()?;
    for options in [&[][..], &["--all-copies"]] {
        let outcome = verify(&cenote, &golden, &golden.devices()?, options)?;
        if kind == "mirror3-degraded" && !options.is_empty() {
            // One side was overwritten on purpose, which a check of all copies finds.
            ensure!(outcome.code == Some(1), "{}", outcome.report());
        } else if kind == "mirror-offline" {
            // One side was offline: all that is needed is there, and that side lacks the newest.
            ensure!(outcome.code == Some(1), "{}", outcome.report());
            ensure!(
                outcome
                    .text()
                    .contains("no blocks are damaged, but devices are stale")
            );
        } else {
            ensure!(
                outcome.code == Some(0),
                "{}\n{}",
                outcome.report(),
                outcome.text()
            );
        }
    }
    Ok(())
}

/// A file whose only copy became noise is named by its path, in the text and in the report.
#[test]
fn a_damaged_file_is_named() -> Result<()> {
    let golden = Golden::find("quotas")?.context("the repository carries this pool")?;
    let cenote = Cenote::new()?;
    let directory = cenote.subdirectory("devices")?;
    let devices = Devices::open(golden.copy_to(&directory)?)?;
    // Random contents are stored as they are: the device has them in plain sight.
    let path = "u1000-2";
    let dataset = format!("{}/users", golden.manifest.pool);
    let file = format!("{dataset}:/{path}");
    let found = offline::read(&cenote, &directory, &[], &["cat"], &[&file])?.success()?;
    ensure!(found.stdout.len() == 15_000, "{} bytes", found.stdout.len());
    let size = usize::try_from(devices.size(0)?)?;
    let image = devices.read(0, 0, size)?;
    let start = &found.stdout[..512];
    let at = image.chunks(512).position(|sector| sector == start);
    let at = at.context("the file's first sector is on the device")? * 512;
    let mut bytes = vec![0; 512];
    Random::new(3).fill(&mut bytes);
    let image = fs::OpenOptions::new()
        .write(true)
        .open(directory.join("v0.img"))?;
    std::os::unix::fs::FileExt::write_all_at(&image, &bytes, at as u64)?;

    let outcome = verify(&cenote, &golden, &directory, &[])?;
    ensure!(outcome.code == Some(1), "{}", outcome.report());
    let said = outcome.text() + &outcome.stderr;
    ensure!(
        said.contains(path),
        "the text does not name {path}:\n{said}"
    );
    let outcome = verify(&cenote, &golden, &directory, &["--json"])?;
    let report: Value = serde_json::from_str(&outcome.text())?;
    ensure!(
        report.to_string().contains(path),
        "the report does not name {path}: {report}"
    );
    let outcome = offline::read(&cenote, &directory, &[], &["cat"], &[&file])?;
    ensure!(outcome.code == Some(1), "damaged contents were given out");
    Ok(())
}

/// What is not there cannot be good.
#[test]
fn a_missing_pool_is_no_good_pool() -> Result<()> {
    let golden = Golden::find("quotas")?.context("the repository carries this pool")?;
    let cenote = Cenote::new()?;
    let empty = cenote.subdirectory("empty")?;
    let outcome = verify(&cenote, &golden, &empty, &[])?;
    ensure!(outcome.code == Some(1), "{}", outcome.report());
    Ok(())
}

test_each_golden_pool!(nothing_is_found);
