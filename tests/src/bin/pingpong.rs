//! `cargo xtask pingpong`: Cenote and OpenZFS write to one pool in turns.

#![forbid(unsafe_code)]

use anyhow::{Context, Result, bail};
use cenote_tests::pingpong::{self, Options};
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    match options().and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pingpong: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Result<Options> {
    let mut options = Options {
        seed: 1,
        rounds: 3,
        operations: 300,
        foreign_operations: 40,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || -> Result<u64> {
            let value = arguments
                .next()
                .with_context(|| format!("{argument} needs a number"))?;
            value.parse().with_context(|| format!("{argument} {value}"))
        };
        match argument.as_str() {
            "--rounds" => options.rounds = number()?,
            "--operations" => options.operations = number()?,
            "--foreign" => options.foreign_operations = number()?,
            _ if argument.starts_with('-') => bail!("unknown option {argument}"),
            _ => options.seed = argument.parse().context("a seed is a number")?,
        }
    }
    Ok(options)
}

fn run(options: &Options) -> Result<()> {
    let (seed, rounds) = (options.seed, options.rounds);
    let start = Instant::now();
    let again = || format!("again: cargo xtask pingpong {seed} --rounds {rounds}");
    if let Some(chosen) = pingpong::run(options).with_context(again)? {
        println!(
            "seed {seed}: {rounds} rounds on a pool by {chosen} in {:.0?}",
            start.elapsed()
        );
    }
    Ok(())
}
