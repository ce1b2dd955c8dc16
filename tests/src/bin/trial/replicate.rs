//! `cargo xtask replicate`: random histories, sent and received, by Cenote and by OpenZFS; and
//! streams that were changed on their way.

use anyhow::{Context, Result};
use cenote_tests::replicate::{self, CutOptions, MutantOptions, Options, TreeOptions};
use cenote_tests::words::{self, Words};
use std::process::ExitCode;
use std::time::Instant;

/// Runs it with the words of its command line.
pub fn main(words: Words) -> ExitCode {
    words::end("replicate", run(words).map(|()| true))
}

/// What a seed is for.
#[derive(Clone, Copy)]
enum Mode {
    Histories,
    Trees(u64),
    Cuts(usize),
    Mutants(u64),
}

fn run(mut words: Words) -> Result<()> {
    let mut options = Options {
        seed: 1,
        steps: 40,
        operations: 120,
        sources: 3,
    };
    let (mut seeds, mut mode) = (1_u64, Mode::Histories);
    while let Some(argument) = words.next() {
        match argument.as_str() {
            "--steps" => options.steps = words.value()?,
            "--operations" => options.operations = words.value::<u64>()?.max(1),
            "--sources" => options.sources = words.value::<usize>()?.max(1),
            "--seeds" => seeds = words.value()?,
            "--mutants" => mode = Mode::Mutants(words.value()?),
            "--cuts" => mode = Mode::Cuts(words.value()?),
            "--trees" => mode = Mode::Trees(words.value()?),
            _ => options.seed = words.seed()?,
        }
    }
    for _ in 0..seeds {
        match mode {
            Mode::Histories => run_seed(&options)?,
            Mode::Trees(packages) => run_trees(options.seed, packages)?,
            Mode::Cuts(within) => run_cuts(options.seed, within)?,
            Mode::Mutants(mutants) => run_mutants(options.seed, mutants)?,
        }
        options.seed += 1;
    }
    Ok(())
}

fn run_seed(options: &Options) -> Result<()> {
    let (seed, steps, sources) = (options.seed, options.steps, options.sources);
    let operations = options.operations;
    let start = Instant::now();
    let again = || {
        format!(
            "again: cargo xtask replicate {seed} --steps {steps} --operations {operations} \
             --sources {sources}"
        )
    };
    let report = replicate::run(options).with_context(again)?;
    println!(
        "seed {seed}: {} full streams and {} increments in {:.0?}, {} MiB; {} were cut and \
         resumed; of {}",
        report.full,
        report.increments,
        start.elapsed(),
        report.bytes >> 20,
        report.resumed,
        report.setup.join(" | ")
    );
    Ok(())
}

fn run_trees(seed: u64, packages: u64) -> Result<()> {
    let start = Instant::now();
    let options = TreeOptions {
        seed,
        packages,
        changes: 12,
    };
    let again = || format!("again: cargo xtask replicate {seed} --trees {packages}");
    let report = replicate::run_tree(&options).with_context(again)?;
    println!(
        "seed {seed}: {} packages of trees in {:.0?}; {:?}, {} refused",
        report.packages,
        start.elapsed(),
        report.changes,
        report.refused
    );
    Ok(())
}

fn run_cuts(seed: u64, within: usize) -> Result<()> {
    let start = Instant::now();
    let options = CutOptions {
        seed,
        within,
        stride: 1,
    };
    let again = || format!("again: cargo xtask replicate {seed} --cuts {within}");
    let report = replicate::run_cuts(&options).with_context(again)?;
    println!(
        "seed {seed}: {} cuts in {:.0?}, {} of them by killing the daemon; {} were resumed",
        report.cuts,
        start.elapsed(),
        report.kills,
        report.resumed
    );
    Ok(())
}

fn run_mutants(seed: u64, mutants: u64) -> Result<()> {
    let start = Instant::now();
    let options = MutantOptions {
        seed,
        mutants,
        keep: std::env::temp_dir().join(format!("mutant-{seed}.stream")),
    };
    let again = || format!("again: cargo xtask replicate {seed} --mutants {mutants}");
    let report = replicate::run_mutants(&options).with_context(again)?;
    println!(
        "seed {seed}: {mutants} mutants in {:.0?}: {} refused, {} of all damaged; {} could have \
         been sent",
        start.elapsed(),
        report.refused,
        report.damaged,
        report.received
    );
    Ok(())
}
