//! `cargo xtask cloud`: a pool in a directory as its store, under random misfortune.

use anyhow::{Context, Result};
use cenote_tests::cloud::{self, Options};
use cenote_tests::words::{self, Words};
use std::process::ExitCode;
use std::time::Instant;

/// Runs it with the words of its command line.
pub fn main(words: Words) -> ExitCode {
    words::end("cloud", run(words).map(|()| true))
}

fn run(mut words: Words) -> Result<()> {
    let mut options = Options {
        seed: 1,
        steps: 200,
    };
    let mut seeds = 1_u64;
    while let Some(argument) = words.next() {
        match argument.as_str() {
            "--steps" => options.steps = words.value()?,
            "--seeds" => seeds = words.value()?,
            _ => options.seed = words.seed()?,
        }
    }
    for _ in 0..seeds {
        let Options { seed, steps } = options;
        let start = Instant::now();
        let again = || format!("again: cargo xtask cloud {seed} --steps {steps}");
        let report = cloud::run(&options).with_context(again)?;
        let took = start.elapsed();
        println!("seed {seed}: {steps} steps in {took:.0?}; {report:?}");
        options.seed += 1;
    }
    Ok(())
}
