//! `cargo xtask zoo`: mutants of every golden pool, on all cores.

use anyhow::Result;
use cenote_tests::golden;
use cenote_tests::words::{self, Words};
use cenote_tests::zoo::{self, Summary, Way};
use std::collections::BTreeMap;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// How long one command may take on a damaged pool.
const TIME: Duration = Duration::from_secs(60);

/// Mutants that a thread takes at once, with a copy of the devices of its own.
const BATCH: u64 = 125;

struct Options {
    numbers: Range<u64>,
    seed: u64,
    kinds: Vec<String>,
    way: Way,
    /// Make the mutants, and run nothing.
    only_keep: bool,
}

/// Runs it with the words of its command line.
pub fn main(words: Words) -> ExitCode {
    let outcome = options(words).and_then(|options| run(&options));
    words::end("zoo", outcome.map(|broken| broken == 0))
}

fn options(mut words: Words) -> Result<Options> {
    let mut options = Options {
        numbers: 0..100,
        seed: 1,
        kinds: Vec::new(),
        way: Way::Reading,
        only_keep: false,
    };
    while let Some(argument) = words.next() {
        match argument.as_str() {
            "--keep" => options.only_keep = true,
            "--write" => options.way = Way::Writing,
            "--mutants" => options.numbers.end = words.value()?,
            "--mutant" => {
                let number: u64 = words.value()?;
                options.numbers = number..number + 1;
            }
            "--from" => options.numbers.start = words.value()?,
            "--seed" => options.seed = words.value()?,
            _ => options.kinds.push(words.word()?),
        }
    }
    if options.kinds.is_empty() {
        options.kinds = golden::kinds();
    }
    Ok(options)
}

/// Runs all batches; returns the number of broken promises.
fn run(options: &Options) -> Result<usize> {
    if options.only_keep {
        return keep(options);
    }
    cenote_tests::program::cenote_path();
    let start = Instant::now();
    // The last is taken first. Kinds take turns, so that a run that is stopped early has seen all.
    let mut batches = Vec::new();
    let mut from = options.numbers.start;
    while from < options.numbers.end {
        let to = options.numbers.end.min(from + BATCH);
        batches.extend(options.kinds.iter().map(|kind| (kind.clone(), from..to)));
        from = to;
    }
    batches.reverse();
    let batches = Mutex::new(batches);
    let total = Mutex::new(BTreeMap::new());
    let threads = thread::available_parallelism().map_or(2, usize::from);
    let results: Vec<Result<()>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| work(options, &batches, &total)))
            .collect();
        let join = |worker: thread::ScopedJoinHandle<'_, Result<()>>| match worker.join() {
            Ok(result) => result,
            Err(_) => Err(anyhow::anyhow!("a worker panicked")),
        };
        workers.into_iter().map(join).collect()
    });
    results.into_iter().collect::<Result<()>>()?;
    let by_kind = total
        .into_inner()
        .map_err(|_| anyhow::anyhow!("a worker panicked"))?;
    let mut total = Summary::default();
    for (kind, summary) in by_kind {
        println!("{kind}: {}", line(&summary));
        total.add(summary);
    }
    println!("all in {:.0?}: {}", start.elapsed(), line(&total));
    Ok(total.failures.len())
}

/// Makes the mutants, and says what and where they are.
fn keep(options: &Options) -> Result<usize> {
    for kind in &options.kinds {
        for number in options.numbers.clone() {
            let (damage, kept) = zoo::keep(kind, options.seed, number)?;
            println!("{}: {damage}", kept.display());
        }
    }
    Ok(0)
}

fn line(summary: &Summary) -> String {
    format!(
        "{} mutants, {} of them with right checksums; {} commands did all, {} ended with an \
         error, {} broke a promise; {} pools suspended themselves; the slowest command took \
         {:.1?}, the largest {} MiB",
        summary.mutants,
        summary.structural,
        summary.clean,
        summary.refused,
        summary.failures.len(),
        summary.suspended.len(),
        summary.elapsed_max,
        summary.memory_max >> 20
    )
}

fn work(
    options: &Options,
    batches: &Mutex<Vec<(String, Range<u64>)>>,
    total: &Mutex<BTreeMap<String, Summary>>,
) -> Result<()> {
    let seed = options.seed;
    let how = match options.way {
        Way::Reading => "",
        Way::Writing => "--write ",
    };
    loop {
        let batch = batches.lock().expect("no holder panics").pop();
        let Some((kind, numbers)) = batch else {
            return Ok(());
        };
        let summary = zoo::run_kind(&kind, seed, numbers.clone(), (options.way, TIME))?;
        println!("{kind} {numbers:?}: {}", line(&summary));
        for (number, cause) in &summary.suspended {
            println!("suspended itself: {kind} mutant {number}: {cause}");
        }
        for failure in &summary.failures {
            let number = failure.number;
            println!(
                "FAILED {kind} mutant {number}: {}\n{}",
                failure.damage, failure.report
            );
            println!("  the pool is kept in {}", failure.kept.display());
            println!("  again: cargo xtask zoo {how}--seed {seed} --mutant {number} {kind}");
        }
        let mut total = total.lock().expect("no holder panics");
        total.entry(kind).or_default().add(summary);
    }
}
