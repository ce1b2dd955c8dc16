//! Runs mutants of a golden pool through Cenote, and says which of its promises one broke.
//!
//! Whatever a pool holds, a command ends by itself: with an answer or an error that names the
//! place, without a panic, in bounded time and memory. A mutant is known by its kind of pool, a
//! seed and a number; the same three make the same mutant again. It is read by commands that need
//! no daemon, or opened for writing by one ([`Way`]).

mod writing;

use crate::golden::Golden;
use crate::manifest::Key;
use crate::mutate::structure::Structure;
use crate::mutate::{Devices, Mutant, blind};
use crate::offline;
use crate::program::{Cenote, Limits, Outcome, run};
use crate::random::Random;
use anyhow::{Context, Result};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Resident memory that a reader of any pool may take.
pub const MEMORY_MAX: u64 = 512 << 20;

/// Writable memory that it may ask for: thread stacks and the like come on top of what it uses.
pub const DATA_MAX: u64 = 512 << 20;

/// Processor time of one command, in seconds.
const PROCESSOR_TIME: u64 = 30;

/// The command run on each mutant: every block is read, decoded and verified.
const VERIFY: &[&str] = &["verify", "--quiet", "--all-copies", "POOL"];

/// And everything in it is walked.
const WALK: &[&str] = &["manifest", "--recursive", "POOL"];

/// Contents of files go the way of a reader as well, for each of this many mutants: the hashes
/// take longer than everything else.
const READ: &[&str] = &["manifest", "--recursive", "--sha256", "POOL"];
const READ_INTERVAL: u64 = 4;

/// Keys that are stretched from passphrases are given for each of this many mutants.
const PASSPHRASE_INTERVAL: u64 = 16;

/// What mutants are put through in turn, two of these each.
const INSPECTIONS: [&[&str]; 18] = [
    &["inspect", "labels"],
    &["inspect", "intent-log", "POOL"],
    &["inspect", "uberblocks"],
    &["inspect", "objects", "--mos", "POOL"],
    &["inspect", "config", "POOL"],
    &["inspect", "spacemaps", "--entries", "POOL"],
    &["inspect", "mos", "POOL"],
    &["inspect", "dedup", "--entries", "POOL"],
    &["inspect", "features", "POOL"],
    &["inspect", "datasets", "POOL"],
    &["inspect", "history", "POOL"],
    &["inspect", "zap", "--mos", "POOL", "1"],
    &["inspect", "objects", "--json", "POOL"],
    &["inspect", "object", "--mos", "POOL", "2"],
    &["inspect", "blocks", "POOL", "34"],
    &["inspect", "bp", "POOL", "34", "0", "0"],
    &["du", "POOL"],
    &["find", "POOL"],
];

/// What mutants are put through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Every block is read, and everything is listed and inspected.
    Reading,
    /// It is imported, mounted, changed and emptied.
    Writing,
}

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
    /// Those of them whose checksums are right.
    pub structural: u64,
    /// Commands that read a mutant to the end without complaint.
    pub clean: u64,
    /// Commands that ended with an error, as they should on damage.
    pub refused: u64,
    /// Mutants that suspended themselves when they were written to, and why.
    pub suspended: Vec<(u64, String)>,
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
        self.structural += other.structural;
        self.clean += other.clean;
        self.refused += other.refused;
        self.suspended.extend(other.suspended);
        self.failures.extend(other.failures);
        self.elapsed_max = self.elapsed_max.max(other.elapsed_max);
        self.memory_max = self.memory_max.max(other.memory_max);
    }
}

/// Runs the mutants `numbers` of `seed` of one kind of pool; each command may take `time`.
pub fn run_kind(
    kind: &str,
    seed: u64,
    numbers: Range<u64>,
    (way, time): (Way, Duration),
) -> Result<Summary> {
    let mut summary = Summary::default();
    let Some(golden) = Golden::find(kind)? else {
        return Ok(summary);
    };
    let cenote = Cenote::new()?;
    let directory = cenote.subdirectory("devices")?;
    let devices = Devices::open(golden.copy_to(&directory)?)?;
    let structure = Structure::read(&devices)?;
    let is_quick = |key: &Key| !matches!(key, Key::Passphrase(_));
    let subject = Subject {
        cenote: &cenote,
        golden: &golden,
        directory: &directory,
        options: offline::options(&cenote, &golden)?,
        quick_options: offline::options_with(&cenote, &golden, is_quick)?,
        time,
    };
    for number in numbers {
        let mutant = mutant(&devices, structure.as_ref(), kind, seed, number)?;
        let undo = devices.apply(&mutant)?;
        let broken = match way {
            Way::Reading => subject.visit(number, &mut summary)?,
            Way::Writing => subject.write(&devices, number, &mut summary)?,
        };
        if let Some(report) = broken {
            let kept = place_of(kind, seed, number);
            devices.keep(&kept)?;
            summary.failures.push(Failure {
                kind: kind.into(),
                number,
                damage: mutant.description.clone(),
                report,
                kept,
            });
        }
        summary.mutants += 1;
        summary.structural += u64::from(mutant.is_structural);
        devices.restore(undo)?;
    }
    Ok(summary)
}

/// Keeps a mutant for later analysis; returns how it was changed and where it is.
pub fn keep(kind: &str, seed: u64, number: u64) -> Result<(String, PathBuf)> {
    let golden = Golden::find(kind)?.context("a kind of golden pool")?;
    let directory = tempfile::tempdir()?;
    let devices = Devices::open(golden.copy_to(directory.path())?)?;
    let structure = Structure::read(&devices)?;
    let mutant = mutant(&devices, structure.as_ref(), kind, seed, number)?;
    let undo = devices.apply(&mutant)?;
    let kept = place_of(kind, seed, number);
    devices.keep(&kept)?;
    devices.restore(undo)?;
    Ok((mutant.description, kept))
}

/// Where the devices of a mutant are kept.
fn place_of(kind: &str, seed: u64, number: u64) -> PathBuf {
    crate::golden::build_directory().join(format!("zoo/{kind}-{seed}-{number}"))
}

/// A pool that is being damaged, and how it is checked.
struct Subject<'a> {
    cenote: &'a Cenote,
    golden: &'a Golden,
    directory: &'a Path,
    options: Vec<String>,
    /// Without the keys that are stretched from passphrases, which takes a second.
    quick_options: Vec<String>,
    time: Duration,
}

impl Subject<'_> {
    /// Puts mutant `number` through its commands; says which promise was broken, if one was.
    fn visit(&self, number: u64, summary: &mut Summary) -> Result<Option<String>> {
        let turn = 2 * usize::try_from(number)? % INSPECTIONS.len();
        let walk = match number % READ_INTERVAL {
            0 => READ,
            _ => WALK,
        };
        for words in [walk, VERIFY, INSPECTIONS[turn], INSPECTIONS[turn + 1]] {
            let options = match number % PASSPHRASE_INTERVAL {
                0 => &self.options,
                _ => &self.quick_options,
            };
            let outcome = self.run(words, options)?;
            summary.elapsed_max = summary.elapsed_max.max(outcome.elapsed);
            summary.memory_max = summary.memory_max.max(outcome.memory_max);
            if let Some(report) = self.broken_promise(&outcome) {
                return Ok(Some(report));
            }
            match outcome.code {
                Some(0) => summary.clean += 1,
                _ => summary.refused += 1,
            }
        }
        Ok(None)
    }

    /// Runs a command, `POOL` in it replaced, within the limits of the zoo.
    fn run(&self, words: &[&str], options: &[String]) -> Result<Outcome> {
        let pool = self.golden.manifest.pool.as_str();
        let words: Vec<&str> = words
            .iter()
            .map(|word| if *word == "POOL" { pool } else { word })
            .collect();
        let mut line = self.cenote.command("cenote", &words);
        line.arg("-d").arg(self.directory).args(options);
        let limits = Limits {
            time: self.time,
            memory: MEMORY_MAX,
            data: Some(DATA_MAX),
            processor: Some(PROCESSOR_TIME),
        };
        run(line, b"", limits).context("cenote does not start")
    }

    /// What was promised and not kept, if anything.
    fn broken_promise(&self, outcome: &Outcome) -> Option<String> {
        let problem = match () {
            () if outcome.has_crashed() || outcome.limit.is_some() => "",
            () if outcome.code == Some(0) => return None,
            () if outcome.stderr.trim().is_empty() && outcome.stdout.is_empty() => {
                "it fails and says nothing"
            }
            () if !self.names_a_place(outcome) => "it fails and does not say where",
            () => return None,
        };
        Some(format!("{}\n{problem}", outcome.report()))
    }

    /// Whether a message names the pool, something in it, or a device.
    fn names_a_place(&self, outcome: &Outcome) -> bool {
        let said = format!("{}{}", outcome.stderr, outcome.text());
        let directory = self.directory.to_string_lossy();
        [
            self.golden.manifest.pool.as_str(),
            &directory,
            "object ",
            "block <",
        ]
        .iter()
        .any(|place| said.contains(place))
    }
}

/// The mutant with these numbers.
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
        Some(structure) if random.below(4) > 0 => {
            let mut mutant = match number % 8 {
                7 => structure.aimed_mutant(&mut random)?,
                _ => structure.mutant(&mut random)?,
            };
            mutant.is_structural = true;
            Ok(mutant)
        }
        _ => blind::mutant(devices, &mut random),
    }
}
