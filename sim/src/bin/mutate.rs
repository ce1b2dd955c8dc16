//! `cargo xtask mutate`: golden pools with wrong tables below right checksums, opened for writing.
//!
//! `[--from N] [--mutants N] [--seed S] [--jobs N] [KIND...]`: each kind of golden pool gets its
//! share of the mutants. Other processes visit them, which the first one watches: one that says
//! nothing for [`SILENCE_MAX`] is ended, and the mutant that it was at counts as broken.

#![forbid(unsafe_code)]

use anyhow::{Context, Result, bail};
use cenote_sim::{Herd, catch_panics};
use cenote_tests::golden;
use cenote_tests::words::{self, Words};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a mutant may take: some seconds, and much longer on a machine with much else to do.
const SILENCE_MAX: Duration = Duration::from_secs(600);
/// Mutants that a process visits.
const BATCH: u64 = 40;

struct Options {
    numbers: Range<u64>,
    seed: u64,
    jobs: usize,
    kinds: Vec<String>,
    /// Visit them in this process, and print a line about each.
    is_worker: bool,
    keep: Option<String>,
}

fn main() -> ExitCode {
    let outcome = options().and_then(|options| match (&options.keep, options.is_worker) {
        (Some(directory), _) => keep(&options, directory).map(|()| true),
        (None, true) => work(&options).map(|()| true),
        (None, false) => run(&options),
    });
    words::end("mutate", outcome)
}

fn options() -> Result<Options> {
    let mut options = Options {
        numbers: 0..0,
        seed: 1,
        jobs: 2,
        kinds: Vec::new(),
        is_worker: false,
        keep: None,
    };
    let mut mutants: u64 = 3000;
    let mut one = None;
    let mut words = Words::new(std::env::args().skip(1));
    while let Some(word) = words.next() {
        match word.as_str() {
            "--mutants" => mutants = words.value()?,
            "--mutant" => one = Some(words.value::<u64>()?),
            "--from" => options.numbers.start = words.value()?,
            "--seed" => options.seed = words.value()?,
            "--jobs" => options.jobs = words.value::<usize>()?.max(1),
            "--worker" => options.is_worker = true,
            "--keep" => options.keep = Some(words.value()?),
            _ => options.kinds.push(words.word()?),
        }
    }
    if options.kinds.is_empty() {
        options.kinds = golden::kinds();
    }
    let share = mutants.div_ceil(options.kinds.len() as u64);
    let start = one.unwrap_or(options.numbers.start);
    options.numbers = start..start + if one.is_some() { 1 } else { share };
    Ok(options)
}

/// Leaves the disks of mutants in a directory.
fn keep(options: &Options, directory: &str) -> Result<()> {
    for kind in &options.kinds {
        let herd = Herd::new(kind)?;
        let structure = herd.structure()?;
        for number in options.numbers.clone() {
            let mutant = herd.mutant(&structure, options.seed, number)?;
            let place = format!("{directory}/{kind}-{number}");
            std::fs::create_dir_all(&place)?;
            let disks = herd.disks(&mutant, cenote_sim::Random::new(1))?;
            disks.save(place.as_ref())?;
            println!("{place}: {}", mutant.description);
        }
    }
    Ok(())
}

/// The worker: prints a line about each mutant before and after its visit.
fn work(options: &Options) -> Result<()> {
    catch_panics();
    let mut out = std::io::stdout();
    for kind in &options.kinds {
        let herd = Herd::new(kind)?;
        let structure = herd.structure()?;
        for number in options.numbers.clone() {
            writeln!(out, "begin {number}")?;
            let mutant = herd.mutant(&structure, options.seed, number)?;
            writeln!(out, "damage {}", mutant.description)?;
            let fate = herd.visit(&mutant, options.seed.wrapping_add(number))?;
            writeln!(out, "told {}", fate.told.replace('\n', " "))?;
            if let Some(broken) = fate.broken {
                writeln!(out, "broken {}", broken.replace('\n', "\u{1}"))?;
            }
            writeln!(out, "end {number}")?;
        }
    }
    Ok(())
}

/// What is known of all mutants so far.
#[derive(Default)]
struct Summary {
    visited: u64,
    refused: u64,
    suspended: u64,
    exported: u64,
    /// By the first line of what was broken: how often, and one of them.
    broken: BTreeMap<String, u64>,
    slowest: Duration,
}

impl Summary {
    fn count(&mut self, told: &str) {
        self.visited += 1;
        let has = |words: &str| u64::from(told.contains(words));
        self.suspended += has("suspended: ");
        self.exported += has("; export; ");
        self.refused += u64::from(told.starts_with("import: "));
    }
}

fn run(options: &Options) -> Result<bool> {
    let begun = Instant::now();
    let mut batches = Vec::new();
    let mut from = options.numbers.start;
    // Kinds take turns, so that a run that is stopped early has seen all.
    while from < options.numbers.end {
        let to = options.numbers.end.min(from + BATCH);
        batches.extend(options.kinds.iter().map(|kind| (kind.clone(), from..to)));
        from = to;
    }
    batches.reverse();
    let batches = Mutex::new(batches);
    let summary = Mutex::new(Summary::default());
    let take = || batches.lock().unwrap_or_else(PoisonError::into_inner).pop();
    std::thread::scope(|scope| {
        let worker = || -> Result<()> {
            while let Some((kind, numbers)) = take() {
                watch(options, &kind, numbers, &summary)?;
            }
            Ok(())
        };
        let workers: Vec<_> = (0..options.jobs).map(|_| scope.spawn(worker)).collect();
        let mut all = workers.into_iter();
        all.try_for_each(|worker| match worker.join() {
            Ok(done) => done,
            Err(_) => bail!("a worker panicked"),
        })
    })?;
    let summary = summary.into_inner().unwrap_or_else(PoisonError::into_inner);
    let broken: u64 = summary.broken.values().sum();
    println!(
        "{} mutants in {:.0?}: {} refused at the import, {} suspended themselves, {} were \
         exported, {broken} broke a promise; the slowest took {:.1?}",
        summary.visited,
        begun.elapsed(),
        summary.refused,
        summary.suspended,
        summary.exported,
        summary.slowest
    );
    for (what, count) in &summary.broken {
        println!("{count} x {what}");
    }
    Ok(broken == 0)
}

/// Starts processes that visit these mutants of a kind.
fn watch(
    options: &Options,
    kind: &str,
    numbers: Range<u64>,
    summary: &Mutex<Summary>,
) -> Result<()> {
    let mut from = numbers.start;
    while from < numbers.end {
        let mut child = worker(options, kind, from..numbers.end)?;
        let seen = follow(&mut child, (options, kind), summary);
        let _ = child.kill();
        child.wait()?;
        from = seen?.unwrap_or(numbers.end);
    }
    Ok(())
}

fn worker(options: &Options, kind: &str, numbers: Range<u64>) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--worker", "--seed", &options.seed.to_string(), kind]);
    command.args(["--from", &numbers.start.to_string()]);
    command.args(["--mutants", &(numbers.end - numbers.start).to_string()]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command.spawn()?)
}

/// Records and prints a broken promise.
fn report(summary: &Mutex<Summary>, (name, damage): (&str, &str), broken: &str) {
    let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
    let first = broken.split('\u{1}').take(2).collect::<Vec<_>>().join(" ");
    *summary.broken.entry(first).or_default() += 1;
    println!("BROKEN {damage}\n{}", broken.replace('\u{1}', "\n"));
    println!("  again: cargo xtask mutate {name}");
}

/// Follows a process to its end. Returns the mutant to continue with, if it was not the last.
fn follow(
    child: &mut Child,
    (options, kind): (&Options, &str),
    summary: &Mutex<Summary>,
) -> Result<Option<u64>> {
    let stdout = child.stdout.take().context("its output")?;
    let stderr = child.stderr.take().context("its errors")?;
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    let errors = std::thread::spawn(move || {
        let all = BufReader::new(stderr).lines().map_while(Result::ok);
        let last: Vec<String> = all.filter(|line| !line.is_empty()).collect();
        last[last.len().saturating_sub(30)..].join("\u{1}")
    });
    let (mut at, mut damage, mut begun) = (None, String::new(), Instant::now());
    let report = |number: u64, damage: &str, broken: &str| {
        let name = format!("--seed {} --mutant {number} {kind}", options.seed);
        report(summary, (&name[..], damage), broken);
    };
    loop {
        let line = match lines.recv_timeout(SILENCE_MAX) {
            Ok(line) => line,
            Err(gone) => {
                let is_silent = gone == RecvTimeoutError::Timeout;
                let _ = child.kill();
                let errors = errors.join().unwrap_or_default();
                let Some(number) = at else {
                    // It came to its end between two mutants.
                    match errors.is_empty() {
                        true => return Ok(None),
                        false => bail!("{kind}: {}", errors.replace('\u{1}', "\n")),
                    }
                };
                let how = if is_silent {
                    "it takes too long"
                } else {
                    "the process ended"
                };
                report(number, &damage, &format!("{how}\u{1}{errors}"));
                return Ok(Some(number + 1));
            }
        };
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match word {
            "begin" => (at, begun) = (rest.parse().ok(), Instant::now()),
            "damage" => rest.clone_into(&mut damage),
            "broken" => report(at.unwrap_or_default(), &damage, rest),
            "told" => {
                let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
                summary.count(rest);
                if options.numbers.end - options.numbers.start <= 1 {
                    println!("{damage}\n{}", rest.replace("; ", "\n"));
                }
            }
            "end" => {
                at = None;
                let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
                summary.slowest = summary.slowest.max(begun.elapsed());
            }
            _ => bail!("a worker says '{line}'"),
        }
    }
}
