//! `cargo xtask clients`: programs that people use, on a mount.

use anyhow::Result;
use cenote_tests::clients::{self, Options};
use cenote_tests::words::{self, Words};
use std::process::ExitCode;

/// Runs it with the words of its command line.
pub fn main(words: Words) -> ExitCode {
    let outcome = arguments(words).and_then(|(names, options)| run(&names, &options));
    words::end("clients", outcome)
}

fn arguments(mut words: Words) -> Result<(Vec<String>, Options)> {
    let mut options = Options::default();
    let mut names = Vec::new();
    while let Some(argument) = words.next() {
        match argument.as_str() {
            "--small" => options.is_small = true,
            "--layout" => options.layout = words.value()?,
            "--properties" => options.properties = words.value()?,
            "--size" => options.device_mebibytes = words.value()?,
            _ => names.push(words.word()?),
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
