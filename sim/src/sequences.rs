//! All short histories of files, each with a power cut right after its last `fsync`.
//!
//! Nearly all bugs of file systems that lose promised data need at most three operations on a few
//! names, with an `fsync` in between (Mohan and others, "Finding Crash-Consistency Bugs with
//! Bounded Black-Box Crash Testing", OSDI 2018). So they can be enumerated. Each history runs in a
//! directory of its own. Then the power fails, and everything that was not flushed is lost. The
//! pool is imported, its log is replayed in memory or on disk, and the directory is compared.
//!
//! The same checks apply to single histories, which are written as text ([`crate::files`]):
//! failures are reported in that form, and tests are written in it.

use crate::disks::Disks;
use crate::files::{Operation, Writer, found, may_be_left};
use crate::machine::{self, DISK_SIZE, Layout, POOL};
use crate::record::bounds;
use anyhow::{Context, Result, ensure};
use cenote_base::rt::{Random, World};
use cenote_pool::Pool;
use cenote_posix::FileSystem;
use std::sync::Arc;

/// What there is, and is on disk, before a history begins.
const SETUP: &str =
    "mkdir A; create foo; write foo 0 5000; create A/bar; write A/bar 0 3000; group";

/// What histories are made of: for each operation, what is to be synced if something is.
const PIECES: &[(&str, &str)] = &[
    ("create A/foo", "A/foo"),
    ("mkdir B", "B"),
    ("write foo 0 1000", "foo"),
    ("write A/bar 100 40000", "A/bar"),
    ("append foo 4000", "foo"),
    ("append A/foo 1000", "A/foo"),
    ("append bar 300", "bar"),
    ("truncate foo 2500", "foo"),
    ("truncate A/bar 0", "A/bar"),
    ("rename foo bar", "bar"),
    ("rename foo A/foo", "A/foo"),
    ("rename foo A/bar", "A/bar"),
    ("rename A/bar foo", "foo"),
    ("rename A/foo foo", "foo"),
    ("rename bar foo", "foo"),
    ("rename A B", "B"),
    ("exchange foo A/bar", "foo"),
    ("exchange A B", "A"),
    ("link foo bar", "bar"),
    ("link foo A/foo", "foo"),
    ("link A/bar bar", "A/bar"),
    ("unlink foo", "."),
    ("unlink bar", "."),
    ("unlink A/bar", "A"),
    ("symlink bar foo", "."),
    ("chmod foo 600", "foo"),
    ("setxattr foo 100", "foo"),
    ("setxattr A/bar 3000", "A/bar"),
    ("allocate foo 4096 8192", "foo"),
    ("punch foo 1000 2000", "foo"),
    ("zero foo 4000 3000", "foo"),
    ("unnamed bar 2000", "bar"),
    ("copy foo A/bar", "A/bar"),
];

/// Histories that are done in one pool, until another one is made.
const PER_POOL: u64 = 100;

/// A pool in which histories are judged.
#[derive(Debug)]
pub struct Course {
    disks: Arc<Disks>,
    pool: Pool,
    fs: Arc<FileSystem>,
    layout: Layout,
    random: Random,
    count: u64,
}

impl Course {
    /// Makes the pool.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new(layout: Layout, seed: u64) -> Result<Self> {
        let mut random = Random::new(seed);
        let disks = Disks::new(layout.disks(), DISK_SIZE, random.fork());
        let disks = Arc::new(disks.lying(vec![layout.is_lying; layout.disks()]));
        let pool = machine::create(&disks, &layout)?;
        let fs = machine::files(&pool, POOL, layout.settings)?;
        Ok(Self {
            disks,
            pool,
            fs,
            layout,
            random,
            count: 0,
        })
    }

    /// Does a history, cuts the power behind it, and compares.
    ///
    /// # Errors
    /// If an operation is not possible, or something that was promised is not there.
    pub fn judge(&mut self, history: &[Operation]) -> Result<()> {
        self.count += 1;
        let name = format!("s{}", self.count);
        let mut writer = Writer::new(&self.fs, &name, 0, self.random.fork())?;
        for operation in Operation::parse_all(SETUP)? {
            writer.perform(&self.disks, &self.fs, operation)?;
        }
        self.disks.record();
        writer.promise(&self.disks);
        for operation in history {
            let words = operation.to_string();
            let is_done = writer.perform(&self.disks, &self.fs, operation.clone())?;
            ensure!(is_done, "'{words}' is not possible");
        }
        let record = self.disks.take_record();
        let after = self.disks.after(&record, record.len(), 0, &mut self.random);
        let bounds = &bounds(&record, record.len(), 1)[0];
        let is_read_only = self.random.happens(50);
        let pool = machine::open(&Arc::new(after), is_read_only)?;
        let fs = machine::files(&pool, POOL, self.layout.settings)?;
        let found = found(&fs, &name)?;
        ensure!(
            may_be_left(&writer.states, bounds, &found),
            "replayed {}, promised {bounds:?}\nfound:    {}\nexpected: {}",
            if is_read_only {
                "in memory"
            } else {
                "for good"
            },
            found.summary(),
            writer.last().summary()
        );
        Ok(())
    }

    /// Ends the work with the pool.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn end(self) -> Result<()> {
        self.fs.dataset()?.end()?;
        Ok(self.pool.close()?)
    }
}

/// Judges one history by itself, in a world that `seed` determines.
///
/// # Errors
/// If it is not understood or not possible, or something that was promised is not there.
pub fn judge_history(words: &str, layout: &Layout, seed: u64) -> Result<()> {
    let history = Operation::parse_all(words)?;
    World::simulated(seed).run(|| {
        let mut course = Course::new(layout.clone(), seed)?;
        let judged = course.judge(&history);
        let ended = course.end();
        judged.with_context(|| words.to_owned())?;
        ended
    })
}

/// All histories of up to so many operations, by their numbers.
#[derive(Clone, Copy, Debug)]
pub struct Sequences {
    length: u32,
}

/// How an operation that is not the last one ends: with nothing, or an `fsync` of what it changed.
const ENDS: u64 = 2;

impl Sequences {
    /// Those of exactly so many operations.
    pub fn of_length(length: u32) -> Self {
        Self { length }
    }

    /// How many numbers there are. Not each of them is a history that is possible.
    pub fn count(&self) -> u64 {
        (PIECES.len() as u64 * ENDS).pow(self.length)
    }

    /// The history with this number; `None` if it is not possible. The last operation is always
    /// followed by an `fsync`: of what it changed, or of the directory above.
    pub fn history(&self, number: u64) -> Option<Vec<Operation>> {
        let mut rest = number;
        let mut words = Vec::new();
        for place in 0..self.length {
            let (operation, synced) = PIECES[usize::try_from(rest % PIECES.len() as u64).ok()?];
            rest /= PIECES.len() as u64;
            let is_synced = rest.is_multiple_of(ENDS);
            rest /= ENDS;
            words.push(operation.to_owned());
            let is_last = place + 1 == self.length;
            match (is_synced, is_last) {
                (true, _) => words.push(format!("fsync {synced}")),
                (false, true) => words.push("fsync .".to_owned()),
                (false, false) => {}
            }
        }
        let history = Operation::parse_all(&words.join(";")).ok()?;
        Operation::are_possible(SETUP, &history).then_some(history)
    }

    /// Judges the histories with these numbers in one world after another.
    ///
    /// # Errors
    /// The words of the first one that fails, and how it does; or that no pool could be made.
    pub fn judge(&self, numbers: &[u64]) -> Result<u64> {
        let mut judged = 0;
        for chunk in numbers.chunks(usize::try_from(PER_POOL)?) {
            let histories = chunk.iter().filter_map(|number| self.history(*number));
            let histories: Vec<_> = histories.collect();
            let seed = chunk[0];
            judged += histories.len() as u64;
            World::simulated(seed).run(|| -> Result<()> {
                let mut course = Course::new(Layout::plain(), seed)?;
                for history in &histories {
                    let told = || {
                        let words = history.iter().map(Operation::to_string);
                        words.collect::<Vec<_>>().join("; ")
                    };
                    course.judge(history).with_context(told)?;
                }
                course.end()
            })?;
        }
        Ok(judged)
    }
}
