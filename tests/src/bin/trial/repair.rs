//! `cargo xtask repair`: devices are damaged, return outdated or are replaced, and scrubs and
//! resilvers repair them.

use anyhow::Result;
use cenote_tests::repair::{self, Options};
use cenote_tests::words::{self, Words};
use std::process::ExitCode;

/// Runs it with the words of its command line.
pub fn main(words: Words) -> ExitCode {
    words::end(
        "repair",
        arguments(words).and_then(|options| repair::run(&options)),
    )
}

fn arguments(mut words: Words) -> Result<Options> {
    let mut options = Options {
        words: Vec::new(),
        sets: Some(2),
        seed: 1,
    };
    while let Some(argument) = words.next() {
        match argument.as_str() {
            "--sets" => options.sets = Some(words.value()?),
            "--all" => options.sets = None,
            "--seed" => options.seed = words.value()?,
            _ => options.words.push(argument),
        }
    }
    Ok(options)
}
