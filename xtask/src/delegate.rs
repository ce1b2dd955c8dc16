//! Commands whose work lives in other packages: they are built when they are asked for.
//!
//! `xtask` itself stays small this way, so that `cargo xtask tidy` needs no engine to compile.

use crate::workspace;
use anyhow::{Result, bail};
use std::process::Command;
use std::time::Duration;

/// Compares golden pools with what Cenote reads from them, and prints a table.
pub fn golden(arguments: &[String]) -> Result<bool> {
    run_program("cenote-tests", "golden", arguments)
}

/// Runs damaged pools through Cenote.
pub fn zoo(arguments: &[String]) -> Result<bool> {
    run_program("cenote-tests", "zoo", arguments)
}

/// Runs a measurement.
pub fn bench(arguments: &[String]) -> Result<bool> {
    run_program("cenote-bench", "bench", arguments)
}

/// Runs program `name` of `package`, optimised: all three walk a lot of data.
fn run_program(package: &str, name: &str, arguments: &[String]) -> Result<bool> {
    let mut command = workspace::cargo();
    command.args([
        "run",
        "--release",
        "--quiet",
        "--package",
        package,
        "--bin",
        name,
        "--",
    ]);
    workspace::succeeds(command.args(arguments))
}

/// Runs one fuzz target, or each for its share of the time.
pub fn fuzz(arguments: &[String]) -> Result<bool> {
    let (name, minutes) = fuzz_arguments(arguments)?;
    let targets = fuzz_targets()?;
    let chosen: Vec<&String> = match name.as_str() {
        "all" => targets.iter().collect(),
        _ => targets.iter().filter(|target| **target == name).collect(),
    };
    if chosen.is_empty() {
        bail!("no fuzz target '{name}'; there are: {}", targets.join(", "));
    }
    let count = u64::try_from(chosen.len()).expect("a few targets");
    let each = Duration::from_secs(minutes * 60 / count).max(Duration::from_secs(1));
    let mut failed = Vec::new();
    for target in chosen {
        println!("== {target}: {} s", each.as_secs());
        // The toolchain's own cargo, which $CARGO names, does not know `+nightly`.
        let mut command = Command::new("cargo");
        command
            .current_dir(workspace::root())
            .env_remove("RUSTUP_TOOLCHAIN");
        command.args(["+nightly", "fuzz", "run", target, "--"]);
        command.arg(format!("-max_total_time={}", each.as_secs()));
        command.args(["-rss_limit_mb=512", "-timeout=10", "-max_len=262144"]);
        if !workspace::succeeds(&mut command)? {
            failed.push(target.as_str());
        }
    }
    if !failed.is_empty() {
        println!(
            "== FAILED: {}; the inputs are in fuzz/artifacts",
            failed.join(", ")
        );
    }
    Ok(failed.is_empty())
}

fn fuzz_arguments(arguments: &[String]) -> Result<(String, u64)> {
    let mut name = None;
    let mut minutes = 1;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--minutes" => match rest.next().map(|value| value.parse()) {
                Some(Ok(value)) => minutes = value,
                _ => bail!("--minutes needs a number"),
            },
            _ if argument.starts_with('-') => bail!("unknown option {argument}"),
            _ => name = Some(argument.clone()),
        }
    }
    match name {
        Some(name) => Ok((name, minutes)),
        None => bail!(
            "which target? `all`, or one of: {}",
            fuzz_targets()?.join(", ")
        ),
    }
}

/// The targets are the files in `fuzz/fuzz_targets`.
fn fuzz_targets() -> Result<Vec<String>> {
    let directory = workspace::root().join("fuzz/fuzz_targets");
    let mut targets = Vec::new();
    if let Ok(entries) = std::fs::read_dir(&directory) {
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "rs")
                && let Some(stem) = path.file_stem()
            {
                targets.push(stem.to_string_lossy().into_owned());
            }
        }
    }
    targets.sort();
    Ok(targets)
}
