//! `cargo xtask recorder`: power cuts of the real daemon, made of a record of its disks.

#![forbid(unsafe_code)]

use anyhow::Result;
use cenote_tests::recorder::{self, Options};
use cenote_tests::words::{self, Words};
use std::process::ExitCode;

fn main() -> ExitCode {
    words::end(
        "recorder",
        arguments().and_then(|options| recorder::run(&options)),
    )
}

fn arguments() -> Result<Options> {
    let mut options = Options {
        seed: 1,
        count: 1,
        milliseconds: 1500,
        cuts: 30,
        judge: 10,
    };
    let mut words = Words::of_process();
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
