//! Runs mutants of a golden pool through Cenote, and says which of its promises one broke.
//!
//! Whatever a pool holds, a command ends by itself: with an answer or an error that names the
//! place, without a panic, in bounded time and memory. A mutant is known by its kind of pool, a
//! seed and a number; the same three make the same mutant again.

use crate::golden::Golden;
use crate::mutate::structure::Structure;
use crate::mutate::{Devices, Mutant, blind};
use crate::offline;
use crate::program::{Cenote, Limits, Outcome, run};
use crate::random::Random;
use anyhow::{Context, Result};
use std::ops::Range;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Resident memory that a reader of any pool may take.
pub const MEMORY_MAX: u64 = 512 << 20;

/// What a mutant is put through: everything in it is walked, read and verified.
const COMMANDS: [&[&str]; 2] = [
    &["manifest", "--recursive", "--sha256"],
    &["verify", "--quiet", "--all-copies"],
];

/// A broken promise.
#[derive(Debug)]
pub struct Failure {
    /// The kind of pool.
    pub kind: String,
    /// The mutant's number.
    pub number: u64,
    /// What was done to the pool.
    pub damage: String,
    /// What happened.
    pub report: String,
    /// Where a copy of the damaged pool is kept.
    pub kept: PathBuf,
}

/// What a run found.
#[derive(Debug, Default)]
pub struct Summary {
    /// Mutants that were run.
    pub mutants: u64,
    /// Commands that read a mutant to the end without complaint.
    pub clean: u64,
    /// Commands that ended with an error, as they should on damage.
    pub refused: u64,
    /// Broken promises.
    pub failures: Vec<Failure>,
    /// The longest that a command took.
    pub elapsed_max: Duration,
    /// The most memory that a command took, in bytes.
    pub memory_max: u64,
}

impl Summary {
    /// Adds what another run found.
    pub fn add(&mut self, other: Summary) {
        self.mutants += other.mutants;
        self.clean += other.clean;
        self.refused += other.refused;
        self.failures.extend(other.failures);
        self.elapsed_max = self.elapsed_max.max(other.elapsed_max);
        self.memory_max = self.memory_max.max(other.memory_max);
    }
}

/// Runs the mutants `numbers` of `seed` of one kind of pool; each command may take `time`.
pub fn run_kind(kind: &str, seed: u64, numbers: Range<u64>, time: Duration) -> Result<Summary> {
    let mut summary = Summary::default();
    let Some(golden) = Golden::find(kind)? else {
        return Ok(summary);
    };
    let cenote = Cenote::new()?;
    let directory = cenote.subdirectory("devices")?;
    let devices = Devices::open(golden.copy_to(&directory)?)?;
    let structure = Structure::read(&devices)?;
    let options = offline::options(&cenote, &golden)?;
    for number in numbers {
        let mutant = mutant(&devices, structure.as_ref(), kind, seed, number)?;
        let undo = devices.apply(&mutant)?;
        for command in COMMANDS {
            let mut line = cenote.command("cenote", command);
            line.arg("-d").arg(&directory).args(&options);
            line.arg(&golden.manifest.pool);
            let outcome = limited(line, time)?;
            summary.elapsed_max = summary.elapsed_max.max(outcome.elapsed);
            summary.memory_max = summary.memory_max.max(outcome.memory_max);
            if let Some(report) = broken_promise(&outcome) {
                let name = format!("zoo/{kind}-{seed}-{number}");
                let kept = crate::golden::build_directory().join(name);
                devices.keep(&kept)?;
                summary.failures.push(Failure {
                    kind: kind.into(),
                    number,
                    damage: mutant.description.clone(),
                    report,
                    kept,
                });
                break;
            }
            match outcome.code {
                Some(0) => summary.clean += 1,
                _ => summary.refused += 1,
            }
        }
        summary.mutants += 1;
        devices.restore(undo)?;
    }
    Ok(summary)
}

/// The mutant that these numbers stand for.
pub fn mutant(
    devices: &Devices,
    structure: Option<&Structure<'_>>,
    kind: &str,
    seed: u64,
    number: u64,
) -> Result<Mutant> {
    let kind_number = kind.bytes().fold(0_u64, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(byte))
    });
    let mut random = Random::new(seed ^ kind_number.rotate_left(32));
    let start = random.next_u64();
    let mut random = Random::new(start.wrapping_add(number));
    match structure {
        Some(structure) if random.below(4) > 0 => structure.mutant(&mut random),
        _ => blind::mutant(devices, &mut random),
    }
}

/// Runs a command within the limits of the zoo.
fn limited(command: Command, time: Duration) -> Result<Outcome> {
    let limits = Limits {
        time,
        memory: MEMORY_MAX,
    };
    run(command, b"", limits).context("cenote does not start")
}

/// What was promised and not kept, if anything.
fn broken_promise(outcome: &Outcome) -> Option<String> {
    let has_spoken = !outcome.stderr.trim().is_empty() || !outcome.stdout.is_empty();
    let is_silent = outcome.code != Some(0) && !has_spoken;
    let is_broken = outcome.has_crashed() || outcome.limit.is_some() || is_silent;
    is_broken.then(|| {
        let silent = if is_silent { " (and says nothing)" } else { "" };
        format!("{}{silent}", outcome.report())
    })
}
