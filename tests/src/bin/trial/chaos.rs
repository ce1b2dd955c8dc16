//! `cargo xtask chaos`: devices come, go and are replaced, many at once, and nothing is lost.

use anyhow::Result;
use cenote_tests::chaos::{self, Options};
use cenote_tests::words::{self, Words};
use std::process::ExitCode;

/// Runs it with the words of its command line.
pub fn main(words: Words) -> ExitCode {
    words::end(
        "chaos",
        arguments(words).and_then(|options| chaos::run(&options)),
    )
}

fn arguments(mut words: Words) -> Result<Options> {
    let mut options = Options {
        seed: 1,
        count: 1,
        storms: 3,
        judge: 1,
    };
    while let Some(argument) = words.next() {
        match argument.as_str() {
            "--count" => options.count = words.value()?,
            "--storms" => options.storms = words.value()?,
            "--judge" => options.judge = words.value()?,
            _ => options.seed = words.seed()?,
        }
    }
    Ok(options)
}
