//! `cargo xtask model`: random operations on a mount, beside a model in memory.

use anyhow::{Context, Result};
use cenote_tests::model::{self, Options};
use cenote_tests::words::{self, Words};
use std::process::ExitCode;
use std::time::Instant;

/// Runs it with the words of its command line.
pub fn main(words: Words) -> ExitCode {
    let outcome = options(words).and_then(|options| run(&options));
    words::end("model", outcome.map(|()| true))
}

fn options(mut words: Words) -> Result<Options> {
    let mut options = Options {
        seed: 1,
        operations: 10_000,
        reopen_interval: 2_500,
        workers: 1,
        kills: 0,
    };
    while let Some(argument) = words.next() {
        match argument.as_str() {
            "--operations" => options.operations = words.value()?,
            "--reopen" => options.reopen_interval = words.value::<u64>()?.max(1),
            "--workers" => options.workers = words.value::<usize>()?.max(1),
            "--kills" => options.kills = words.value()?,
            _ => options.seed = words.seed()?,
        }
    }
    Ok(options)
}

fn run(options: &Options) -> Result<()> {
    let (seed, operations) = (options.seed, options.operations);
    let start = Instant::now();
    let interval = options.reopen_interval;
    let (workers, kills) = (options.workers, options.kills);
    let again = || {
        format!(
            "again: cargo xtask model {seed} --operations {operations} --reopen {interval} \
             --workers {workers} --kills {kills}"
        )
    };
    let report = model::run(options).with_context(again)?;
    println!(
        "seed {seed}: {operations} operations and {} imports on {} in {:.0?}; {} errors as they \
         should be; {:?}",
        report.reopened,
        report.setup,
        start.elapsed(),
        report.refused,
        report.operations
    );
    Ok(())
}
