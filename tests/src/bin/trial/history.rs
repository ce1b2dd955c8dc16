//! `cargo xtask history`: random histories of datasets and snapshots by commands, beside a model.

use anyhow::{Context, Result};
use cenote_tests::history::{self, Options};
use cenote_tests::words::{self, Words};
use std::process::ExitCode;
use std::time::Instant;

/// Runs it with the words of its command line.
pub fn main(words: Words) -> ExitCode {
    words::end("history", run(words).map(|()| true))
}

fn run(mut words: Words) -> Result<()> {
    let mut options = Options {
        seed: 1,
        steps: 1000,
        judge_interval: 500,
        kills: 5,
        foreign_operations: 0,
    };
    let mut seeds = 1_u64;
    while let Some(argument) = words.next() {
        match argument.as_str() {
            "--steps" => options.steps = words.value()?,
            "--judge" => options.judge_interval = words.value::<u64>()?.max(1),
            "--kills" => options.kills = words.value()?,
            "--foreign" => options.foreign_operations = words.value()?,
            "--seeds" => seeds = words.value()?,
            "--seed" => options.seed = words.value()?,
            _ => options.seed = words.seed()?,
        }
    }
    for _ in 0..seeds {
        run_seed(&options)?;
        options.seed += 1;
    }
    Ok(())
}

fn run_seed(options: &Options) -> Result<()> {
    let (seed, steps) = (options.seed, options.steps);
    let (judge, kills) = (options.judge_interval, options.kills);
    let foreign = options.foreign_operations;
    let start = Instant::now();
    let again = || {
        format!(
            "again: cargo xtask history {seed} --steps {steps} --judge {judge} --kills {kills} \
             --foreign {foreign}"
        )
    };
    let report = history::run(options).with_context(again)?;
    println!(
        "seed {seed}: {steps} steps on {} in {:.0?}; {} refused as they should be, {} times the \
         space that came back was compared, {} of {} done under a kill; {:?}",
        report.setup,
        start.elapsed(),
        report.refused,
        report.reclaimed,
        report.killed.1,
        report.killed.0,
        report.steps
    );
    Ok(())
}
