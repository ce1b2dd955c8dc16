//! `cargo xtask sim SEED [--count N] [--trace] [--judge N]`: simulated machines lose their power.

#![forbid(unsafe_code)]

use anyhow::{Context, Result, bail};
use cenote_base::rt::World;
use cenote_sim::{Outcome, POOL, live};
use cenote_tests::referee;
use std::io::BufWriter;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

struct Options {
    seed: u64,
    count: u64,
    is_traced: bool,
    /// OpenZFS judges what each so-manieth seed left.
    judge: Option<u64>,
}

fn options() -> Result<Options> {
    let mut options = Options {
        seed: 1,
        count: 1,
        is_traced: false,
        judge: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || -> Result<u64> {
            let word = words
                .next()
                .with_context(|| format!("{word} needs a number"))?;
            word.parse()
                .with_context(|| format!("'{word}' is not a number"))
        };
        match word.as_str() {
            "--count" => options.count = number()?,
            "--judge" => options.judge = Some(number()?.max(1)),
            "--trace" => options.is_traced = true,
            seed => {
                options.seed = seed
                    .parse()
                    .with_context(|| format!("'{seed}' is neither a seed nor an option"))?;
            }
        }
    }
    if options.is_traced && options.count > 1 {
        bail!("--trace is for one seed");
    }
    Ok(options)
}

fn main() -> ExitCode {
    match options().and_then(|options| run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("sim: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<bool> {
    let next = AtomicU64::new(0);
    let failed = Mutex::new(Vec::new());
    let workers = match options.is_traced {
        true => 1,
        false => std::thread::available_parallelism()?.get(),
    };
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= options.count {
                        return;
                    }
                    let seed = options.seed + index;
                    match one(options, seed) {
                        Ok(outcome) => {
                            let Outcome { events, cuts } = outcome;
                            eprintln!("seed {seed}: {cuts} cuts in {events} events");
                        }
                        Err(error) => {
                            eprintln!("seed {seed} FAILED: {error:#}");
                            failed.lock().expect("nobody panics with it").push(seed);
                        }
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().expect("nobody panicked with it");
    failed.sort_unstable();
    if failed.is_empty() {
        eprintln!(
            "{} seeds from {} on: nothing was lost",
            options.count, options.seed
        );
        return Ok(true);
    }
    eprintln!(
        "{} of {} seeds failed: {failed:?}",
        failed.len(),
        options.count
    );
    eprintln!("again: cargo xtask sim {} --trace", failed[0]);
    Ok(false)
}

fn one(options: &Options, seed: u64) -> Result<Outcome> {
    let is_judged = options.judge.is_some_and(|each| seed.is_multiple_of(each));
    let kept = is_judged.then(tempfile::tempdir).transpose()?;
    let directory = kept.as_ref().map(|kept| kept.path().to_owned());
    let mut world = World::simulated(seed);
    if options.is_traced {
        world = world.trace_to(BufWriter::new(std::io::stdout()));
    }
    let outcome = world.run(|| {
        let kept = directory.as_deref();
        let lose_flushes = false;
        live(seed, cenote_sim::Options { kept, lose_flushes })
    })?;
    if let Some(kept) = kept {
        referee::judge(kept.path(), POOL);
    }
    Ok(outcome)
}
