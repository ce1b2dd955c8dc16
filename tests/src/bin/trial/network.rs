//! `cargo xtask network`: a pool on NBD servers that are killed and stay away, under load.

use anyhow::{Context, Result};
use cenote_tests::network::{self, Options};
use cenote_tests::words::{self, Words};
use std::process::ExitCode;
use std::time::Instant;

/// Runs it with the words of its command line.
pub fn main(words: Words) -> ExitCode {
    words::end("network", run(words).map(|()| true))
}

fn run(mut words: Words) -> Result<()> {
    let mut options = Options {
        seed: 1,
        rounds: 12,
        outage: 60,
    };
    let mut seeds = 1_u64;
    while let Some(argument) = words.next() {
        match argument.as_str() {
            "--rounds" => options.rounds = words.value()?,
            "--outage" => options.outage = words.value()?,
            "--seeds" => seeds = words.value()?,
            _ => options.seed = words.seed()?,
        }
    }
    for _ in 0..seeds {
        let Options {
            seed,
            rounds,
            outage,
        } = options;
        let start = Instant::now();
        let again =
            || format!("again: cargo xtask network {seed} --rounds {rounds} --outage {outage}");
        let report = network::run(&options).with_context(again)?;
        let took = start.elapsed();
        println!("seed {seed}: {rounds} rounds in {took:.0?}; {report:?}");
        options.seed += 1;
    }
    Ok(())
}
