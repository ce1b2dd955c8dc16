//! `cargo xtask model`: random operations on a mount, beside a model in memory.

#![forbid(unsafe_code)]

use anyhow::{Context, Result, bail};
use cenote_tests::model::{self, Options};
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    match options().and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("model: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Result<Options> {
    let mut options = Options {
        seed: 1,
        operations: 10_000,
        reopen_interval: 2_500,
        workers: 1,
        kills: 0,
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
            "--operations" => options.operations = number()?,
            "--reopen" => options.reopen_interval = number()?.max(1),
            "--workers" => options.workers = usize::try_from(number()?.max(1))?,
            "--kills" => options.kills = number()?,
            _ if argument.starts_with('-') => bail!("unknown option {argument}"),
            _ => options.seed = argument.parse().context("a seed is a number")?,
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
