//! `cargo xtask recorder`: power cuts of the real daemon, made of a record of its disks.

use anyhow::Result;
use cenote_tests::recorder::{self, Options};
use cenote_tests::words::{self, Words};
use std::process::ExitCode;

/// Runs it with the words of its command line.
pub fn main(words: Words) -> ExitCode {
    words::end(
        "recorder",
        arguments(words).and_then(|options| recorder::run(&options)),
    )
}

fn arguments(mut words: Words) -> Result<Options> {
    let mut options = Options {
        seed: 1,
        count: 1,
        milliseconds: 1500,
        cuts: 30,
        judge: 10,
    };
    while let Some(argument) = words.next() {
        match argument.as_str() {
            "--count" => options.count = words.value()?,
            "--time" => options.milliseconds = words.value()?,
            "--cuts" => options.cuts = words.value()?,
            "--judge" => options.judge = words.value()?,
            _ => options.seed = words.seed()?,
        }
    }
    Ok(options)
}
