//! `cargo xtask pingpong`: Cenote and OpenZFS write to one pool in turns.

use anyhow::{Context, Result};
use cenote_tests::pingpong::{self, GuestOptions, Options};
use cenote_tests::random::Random;
use cenote_tests::site;
use cenote_tests::words::{self, Words};
use std::process::ExitCode;
use std::time::Instant;

/// Runs it with the words of its command line.
pub fn main(words: Words) -> ExitCode {
    words::end("pingpong", run(words).map(|()| true))
}

/// Properties of the file system that both sides share.
const PROPERTIES: [&str; 7] = [
    "-o compression=zstd",
    "-o recordsize=16K -o compression=off",
    "-o encryption=aes-256-gcm -o compression=lz4",
    "-o dedup=on",
    "-o recordsize=1M -o copies=2 -o dnodesize=auto",
    "-o version=4 -o compression=gzip",
    "-o version=2 -o recordsize=8K",
];

struct Arguments {
    run: Options,
    /// How many seeds, one after the other.
    seeds: u64,
    with_guest: bool,
}

fn arguments(mut words: Words) -> Result<Arguments> {
    let mut parsed = Arguments {
        run: Options {
            seed: 1,
            rounds: 3,
            operations: 300,
            foreign_operations: 40,
        },
        seeds: 1,
        with_guest: false,
    };
    while let Some(argument) = words.next() {
        match argument.as_str() {
            "--rounds" => parsed.run.rounds = words.value()?,
            "--operations" => parsed.run.operations = words.value()?,
            "--foreign" => parsed.run.foreign_operations = words.value()?,
            "--seeds" => parsed.seeds = words.value()?,
            "--layouts" => parsed.seeds = pingpong::layout_count(),
            "--vm" => parsed.with_guest = true,
            _ => parsed.run.seed = words.seed()?,
        }
    }
    Ok(parsed)
}

fn run(words: Words) -> Result<()> {
    let mut arguments = arguments(words)?;
    for _ in 0..arguments.seeds {
        match arguments.with_guest {
            true => run_guest(&arguments.run)?,
            false => run_seed(&arguments.run)?,
        }
        arguments.run.seed += 1;
    }
    Ok(())
}

fn run_seed(options: &Options) -> Result<()> {
    let (seed, rounds) = (options.seed, options.rounds);
    let start = Instant::now();
    let (ours, theirs) = (options.operations, options.foreign_operations);
    let again = || {
        format!(
            "again: cargo xtask pingpong {seed} --rounds {rounds} --operations {ours} \
             --foreign {theirs}"
        )
    };
    if let Some(chosen) = pingpong::run(options).with_context(again)? {
        println!(
            "seed {seed}: {rounds} rounds on a pool by {chosen} in {:.0?}",
            start.elapsed()
        );
    }
    Ok(())
}

fn run_guest(options: &Options) -> Result<()> {
    let (seed, rounds) = (options.seed, options.rounds);
    let layouts: Vec<&str> = site::layouts().collect();
    let layout = layouts[usize::try_from(seed)? % layouts.len()];
    let properties = *Random::new(seed).choose(&PROPERTIES);
    let guest = GuestOptions {
        seed,
        rounds,
        layout: layout.into(),
        properties: properties.into(),
    };
    let start = Instant::now();
    let again = || format!("again: cargo xtask pingpong {seed} --vm --rounds {rounds}");
    if pingpong::run_guest(&guest).with_context(again)? {
        println!(
            "seed {seed}: {rounds} rounds with the kernel on {layout} {properties} in {:.0?}",
            start.elapsed()
        );
    }
    Ok(())
}
