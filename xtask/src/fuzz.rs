//! `cargo xtask fuzz`: the targets in `fuzz/fuzz_targets`, with the stable toolchain.
//!
//! libFuzzer wants its coverage counters in the code. Options of the stable compiler put them
//! there, so neither a nightly toolchain nor another tool is needed. (`cargo fuzz run NAME` works
//! as well, if installed, and adds the address sanitizer.)
//!
//! A target starts from the small inputs in `fuzz/seeds/NAME` and from what earlier runs found
//! in `fuzz/corpus/NAME`. An input that fails is kept in `fuzz/artifacts/NAME`.

use crate::workspace;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Counters for each edge, a table of what they belong to, and what comparisons compare.
const FLAGS: [&str; 6] = [
    "--cfg fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// The longest input: twice the largest structure that a decoder takes at once.
const INPUT_SIZE_MAX: usize = 256 << 10;

/// Megabytes of memory, and seconds for one input.
const LIMITS: [&str; 2] = ["-rss_limit_mb=512", "-timeout=10"];

struct Options {
    name: String,
    minutes: u64,
    input: Option<PathBuf>,
}

/// Runs one target or, by the name `all`, each for its share of the time.
pub fn run(arguments: &[String]) -> Result<bool> {
    let targets = targets()?;
    let options = options(arguments, &targets)?;
    let chosen: Vec<&String> = match options.name.as_str() {
        "all" => targets.iter().collect(),
        name => targets.iter().filter(|target| *target == name).collect(),
    };
    if chosen.is_empty() {
        bail!(
            "no fuzz target '{}'; there are: {}",
            options.name,
            targets.join(", ")
        );
    }
    let built = build(&options.name)?;
    let count = u64::try_from(chosen.len()).expect("a few targets");
    let seconds = (options.minutes * 60 / count).max(1);
    let mut failed = Vec::new();
    for target in chosen {
        let mut command = Command::new(built.join(target));
        match &options.input {
            Some(input) => command.arg(input),
            None => command.args(session(target, seconds)?),
        };
        println!("== {target}");
        command.current_dir(workspace::root().join("fuzz"));
        if !workspace::succeeds(&mut command)? {
            failed.push(target.as_str());
        }
    }
    for target in &failed {
        println!("== {target} FAILED; again: cargo xtask fuzz {target} --input fuzz/artifacts/...");
    }
    Ok(failed.is_empty())
}

/// libFuzzer's arguments for a session of `seconds`.
fn session(target: &str, seconds: u64) -> Result<Vec<String>> {
    let fuzz = workspace::root().join("fuzz");
    let corpus = fuzz.join("corpus").join(target);
    let artifacts = fuzz.join("artifacts").join(target);
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&artifacts)?;
    let mut arguments = vec![corpus.display().to_string()];
    let seeds = fuzz.join("seeds").join(target);
    if seeds.is_dir() {
        arguments.push(seeds.display().to_string());
    }
    arguments.extend(LIMITS.map(String::from));
    arguments.push(format!("-max_total_time={seconds}"));
    arguments.push(format!("-max_len={INPUT_SIZE_MAX}"));
    arguments.push(format!("-artifact_prefix={}/", artifacts.display()));
    arguments.extend(["-print_final_stats=1".into(), "-verbosity=0".into()]);
    Ok(arguments)
}

/// Builds the target `name`, or all; returns the directory of the programs.
fn build(name: &str) -> Result<PathBuf> {
    let host = host()?;
    let mut command = workspace::cargo();
    command.args(["build", "--release", "--manifest-path", "fuzz/Cargo.toml"]);
    // With a target named, build scripts and procedural macros stay without counters.
    command.args(["--target", &host]);
    match name {
        "all" => command.arg("--bins"),
        _ => command.args(["--bin", name]),
    };
    command.env("RUSTFLAGS", FLAGS.join(" "));
    command.env("CARGO_TARGET_DIR", workspace::root().join("fuzz/target"));
    if !workspace::succeeds(&mut command)? {
        bail!("the fuzz targets do not build");
    }
    let directory = workspace::root().join("fuzz/target").join(host);
    Ok(directory.join("release"))
}

/// The machine's own target, such as `x86_64-unknown-linux-gnu`.
fn host() -> Result<String> {
    let output = Command::new("rustc")
        .arg("-vV")
        .output()
        .context("cannot run rustc")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_string).context("rustc -vV names no host")
}

fn options(arguments: &[String], targets: &[String]) -> Result<Options> {
    let mut name = None;
    let mut minutes = 1;
    let mut input = None;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--minutes" => match rest.next().map(|value| value.parse()) {
                Some(Ok(value)) => minutes = value,
                _ => bail!("--minutes needs a number"),
            },
            "--input" => {
                let path = rest.next().context("--input needs a file")?;
                input = Some(fs::canonicalize(path).with_context(|| path.clone())?);
            }
            _ if argument.starts_with('-') => bail!("unknown option {argument}"),
            _ => name = Some(argument.clone()),
        }
    }
    match name {
        Some(name) => Ok(Options {
            name,
            minutes,
            input,
        }),
        None => bail!("which target? `all`, or one of: {}", targets.join(", ")),
    }
}

/// The targets are the files in `fuzz/fuzz_targets`.
fn targets() -> Result<Vec<String>> {
    let directory = workspace::root().join("fuzz/fuzz_targets");
    let mut targets = Vec::new();
    for entry in fs::read_dir(&directory).context("fuzz/fuzz_targets")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs")
            && let Some(stem) = path.file_stem()
        {
            targets.push(stem.to_string_lossy().into_owned());
        }
    }
    targets.sort();
    Ok(targets)
}
