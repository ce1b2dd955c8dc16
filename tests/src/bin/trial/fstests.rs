//! `cargo xtask fstests`: xfstests on mounts.

use anyhow::{Context, Result};
use cenote_tests::fstests::{self, Options};
use cenote_tests::words::{self, Words};
use std::process::ExitCode;

/// Runs it with the words of its command line.
pub fn main(words: Words) -> ExitCode {
    words::end(
        "fstests",
        arguments(words).and_then(|options| fstests::run(&options)),
    )
}

fn arguments(mut words: Words) -> Result<Options> {
    let mut options = Options {
        source: std::path::PathBuf::new(),
        words: Vec::new(),
        properties: String::new(),
        device_mebibytes: 10 << 10,
    };
    let mut source = None;
    while let Some(argument) = words.next() {
        match argument.as_str() {
            "--properties" => options.properties = words.value()?,
            "--size" => options.device_mebibytes = words.value()?,
            _ if source.is_none() => source = Some(argument),
            _ => options.words.push(argument),
        }
    }
    options.source = source.context("which directory is xfstests in?")?.into();
    if options.words.is_empty() {
        options.words = ["-g", "generic/quick"].map(str::to_owned).to_vec();
    }
    Ok(options)
}
