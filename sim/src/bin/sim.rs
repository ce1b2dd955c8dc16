//! `cargo xtask sim`: simulated machines lose their power.
//!
//! `SEED [--count N] [--trace] [--weather] [--restarts] [--referee N]` lives through seeds, with
//! `--weather` on disks that fail flushes and are away for a while, with `--restarts` through long
//! lives in which disks are exchanged; `--sequences LENGTH` judges all
//! histories of files of that many operations, with `--count N` a sample of them that the seed
//! decides; `--history WORDS` judges one. `--names` exchanges disks for others while the pool runs.
//! `--disks` kills daemons whose disks the kernel keeps.

#![forbid(unsafe_code)]

use anyhow::{Context, Result, bail};
use cenote_base::rt::{Random, World};
use cenote_sim::{
    Layout, Outcome, POOL, Sequences, exchange_names, judge_history, live, take_over,
};
use cenote_tests::referee;
use std::io::BufWriter;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Histories that a thread judges before it asks for others.
const BATCH: usize = 100;

struct Options {
    seed: u64,
    count: Option<u64>,
    is_traced: bool,
    /// Only long lives with restarts.
    only_restarts: bool,
    has_weather: bool,
    /// OpenZFS judges what each so-manieth seed left.
    referee: Option<u64>,
    /// Length of the histories to judge.
    sequences: Option<u32>,
    history: Option<String>,
    /// Disks are exchanged for others in place of power cuts.
    has_names: bool,
    /// Daemons are killed in place of power cuts.
    has_disks: bool,
}

fn options() -> Result<Options> {
    let mut options = Options {
        seed: 1,
        count: None,
        is_traced: false,
        only_restarts: false,
        has_weather: false,
        referee: None,
        sequences: None,
        history: None,
        has_names: false,
        has_disks: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .with_context(|| format!("{word} needs a value"))
        };
        let number = |value: String| -> Result<u64> {
            value
                .parse()
                .with_context(|| format!("'{value}' is not a number"))
        };
        match word.as_str() {
            "--count" => options.count = Some(number(value()?)?),
            "--referee" => options.referee = Some(number(value()?)?.max(1)),
            "--sequences" => options.sequences = Some(u32::try_from(number(value()?)?)?),
            "--history" => options.history = Some(value()?),
            "--names" => options.has_names = true,
            "--disks" => options.has_disks = true,
            "--trace" => options.is_traced = true,
            "--restarts" => options.only_restarts = true,
            "--weather" => options.has_weather = true,
            seed => {
                options.seed = seed
                    .parse()
                    .with_context(|| format!("'{seed}' is neither a seed nor an option"))?;
            }
        }
    }
    if options.is_traced && options.count.is_some() {
        bail!("--trace is for one seed");
    }
    if options
        .sequences
        .is_some_and(|length| !(1..=4).contains(&length))
    {
        bail!("histories have 1 to 4 operations");
    }
    Ok(options)
}

fn main() -> ExitCode {
    let done = options().and_then(|options| match (&options.history, options.sequences) {
        (Some(words), _) => judge_history(words, &Layout::plain(), options.seed).map(|()| true),
        (None, Some(length)) => run_sequences(&options, Sequences::of_length(length)),
        (None, None) => run_seeds(&options),
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("sim: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Calls `each` with the numbers below `count`, on all cores; those for which it said no.
fn on_all_cores(count: u64, workers: usize, each: impl Fn(u64) -> bool + Sync) -> Result<Vec<u64>> {
    let next = AtomicU64::new(0);
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    if !each(index) {
                        failed
                            .lock()
                            .expect("no thread panics under the lock")
                            .push(index);
                    }
                }
            });
        }
    });
    let mut failed = failed
        .into_inner()
        .expect("no thread panicked under the lock");
    failed.sort_unstable();
    Ok(failed)
}

fn run_seeds(options: &Options) -> Result<bool> {
    let count = options.count.unwrap_or(1);
    let workers = match options.is_traced {
        true => 1,
        false => std::thread::available_parallelism()?.get(),
    };
    let failed = on_all_cores(count, workers, |index| {
        let seed = options.seed + index;
        match one(options, seed) {
            Ok(outcome) => {
                let Outcome {
                    told,
                    events,
                    cuts,
                    noticed,
                } = outcome;
                let noticed = match noticed {
                    0 => String::new(),
                    count => format!(", {count} errors"),
                };
                eprintln!("seed {seed}: {cuts} cuts in {events} events{noticed}: {told}");
                true
            }
            Err(error) => {
                eprintln!("seed {seed} FAILED: {error:#}");
                false
            }
        }
    })?;
    let failed: Vec<u64> = failed.iter().map(|index| options.seed + index).collect();
    let Some(first) = failed.first() else {
        eprintln!("{count} seeds from {} on: nothing was lost", options.seed);
        return Ok(true);
    };
    eprintln!("{} of {count} seeds failed: {failed:?}", failed.len());
    let weather = if options.has_weather {
        " --weather"
    } else {
        ""
    };
    eprintln!("again: cargo xtask sim {first} --trace{weather}");
    Ok(false)
}

fn one(options: &Options, seed: u64) -> Result<Outcome> {
    let is_judged = options
        .referee
        .is_some_and(|each| seed.is_multiple_of(each));
    let directory = is_judged.then(tempfile::tempdir).transpose()?;
    let mut world = World::simulated(seed);
    if options.is_traced {
        world = world.trace_to(BufWriter::new(std::io::stdout()));
    }
    if options.has_names || options.has_disks {
        let told = match options.has_names {
            true => exchange_names(&world, seed)?,
            false => take_over(&world, seed, false)?.told,
        };
        return Ok(Outcome {
            told,
            ..Outcome::default()
        });
    }
    let kept = directory.as_ref().map(tempfile::TempDir::path);
    let chosen = cenote_sim::Options {
        kept,
        lose_flushes: false,
        has_weather: options.has_weather,
        only_restarts: options.only_restarts,
    };
    let outcome = live(&world, seed, chosen)?;
    if let Some(kept) = kept {
        referee::judge(kept, POOL);
    }
    Ok(outcome)
}

fn run_sequences(options: &Options, sequences: Sequences) -> Result<bool> {
    let numbers: Vec<u64> = match options.count {
        None => (0..sequences.count()).collect(),
        Some(count) => {
            let mut random = Random::new(options.seed);
            (0..count)
                .map(|_| random.below(sequences.count()))
                .collect()
        }
    };
    let batches: Vec<&[u64]> = numbers.chunks(BATCH).collect();
    let judged = AtomicU64::new(0);
    let workers = std::thread::available_parallelism()?.get();
    let failed = on_all_cores(batches.len() as u64, workers, |index| {
        let batch = usize::try_from(index)
            .ok()
            .and_then(|index| batches.get(index));
        match sequences.judge(batch.copied().unwrap_or_default()) {
            Ok(count) => {
                judged.fetch_add(count, Ordering::Relaxed);
                true
            }
            Err(error) => {
                eprintln!("FAILED: {error:#}");
                false
            }
        }
    })?;
    let judged = judged.into_inner();
    eprintln!(
        "{judged} histories are as promised, {} batches are not",
        failed.len()
    );
    Ok(failed.is_empty())
}
