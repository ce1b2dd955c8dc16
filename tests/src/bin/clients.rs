//! `cargo xtask clients`: programs that people use, on a mount.

#![forbid(unsafe_code)]

use anyhow::{Context, Result, bail};
use cenote_tests::clients::{self, Options};
use std::process::ExitCode;

fn main() -> ExitCode {
    match arguments().and_then(|(names, options)| run(&names, &options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("clients: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> Result<(Vec<String>, Options)> {
    let mut options = Options::default();
    let mut names = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || {
            let value = arguments.next();
            value.with_context(|| format!("{argument} needs a value"))
        };
        match argument.as_str() {
            "--small" => options.is_small = true,
            "--layout" => options.layout = value()?,
            "--properties" => options.properties = value()?,
            "--size" => options.device_mebibytes = value()?.parse().context("a size in MiB")?,
            _ if argument.starts_with('-') => bail!("unknown option {argument}"),
            _ => names.push(argument),
        }
    }
    if names.is_empty() {
        names = clients::names().map(str::to_string).collect();
    }
    Ok((names, options))
}

/// All of them run, whatever one finds.
fn run(names: &[String], options: &Options) -> Result<bool> {
    let mut is_good = true;
    for name in names {
        match clients::run(name, options) {
            Ok(Some(elapsed)) => println!("{name:12} ok, {elapsed:.1?} on the mount"),
            Ok(None) => println!("{name:12} skipped"),
            Err(error) => {
                println!("{name:12} FAILED: {error:#}");
                is_good = false;
            }
        }
    }
    Ok(is_good)
}
