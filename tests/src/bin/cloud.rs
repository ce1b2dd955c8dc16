//! `cargo xtask cloud`: a pool in a directory as its store, under random misfortune.

#![forbid(unsafe_code)]

use anyhow::{Context, Result};
use cenote_tests::cloud::{self, Options};
use cenote_tests::words::{self, Words};
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    words::end("cloud", run().map(|()| true))
}

fn run() -> Result<()> {
    let mut options = Options {
        seed: 1,
        steps: 200,
    };
    let mut seeds = 1_u64;
    let mut words = Words::of_process();
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
