//! `cargo xtask history`: random histories of datasets and snapshots by commands, beside a model.

#![forbid(unsafe_code)]

use anyhow::{Context, Result};
use cenote_tests::history::{self, Options};
use cenote_tests::words::{self, Words};
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    words::end("history", run().map(|()| true))
}

fn run() -> Result<()> {
    let mut options = Options {
        seed: 1,
        steps: 1000,
        judge_interval: 500,
        kills: 5,
    };
    let mut seeds = 1_u64;
    let mut words = Words::of_process();
    while let Some(argument) = words.next() {
        match argument.as_str() {
            "--steps" => options.steps = words.value()?,
            "--judge" => options.judge_interval = words.value::<u64>()?.max(1),
            "--kills" => options.kills = words.value()?,
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
    let start = Instant::now();
    let again = || {
        format!("again: cargo xtask history {seed} --steps {steps} --judge {judge} --kills {kills}")
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
