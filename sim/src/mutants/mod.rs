//! Pools whose tables are wrong although checksums are right, opened for writing and used.
//!
//! A golden pool is changed by [`cenote_tests::mutate`] and imported in a simulated world. Then it
//! gets typical work: groups, mounts, reads, writes, snapshots, a checkpoint, a scrub, destroyed
//! datasets, an export, and another import. All of that may be refused with an error. There must be
//! no panic and no endless wait: a world with a thread that waits longer than [`TIME_MAX`] of its
//! own time ends with a report of what each thread waits for.

mod visit;

use crate::disks::Disks;
use crate::image::Image;
use anyhow::{Context, Result, ensure};
use cenote_base::rt::{self, Mutex, Random as Chance, World, ranks};
use cenote_tests::golden::Golden;
use cenote_tests::manifest::Manifest;
use cenote_tests::mutate::structure::Structure;
use cenote_tests::mutate::{Devices, Mutant};
use cenote_tests::random::Random;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long a mutant's world may last by its own clock: a scan waits for a while, and nothing else
/// takes more than some seconds.
const TIME_MAX: Duration = Duration::from_secs(4 * 3600);

/// Panics of all threads since this was emptied last.
static PANICS: Mutex<Vec<String>, ranks::SimRecord> = Mutex::new(Vec::new());

/// A golden pool in memory, and what its blocks are.
pub struct Herd {
    kind: String,
    manifest: Manifest,
    images: Vec<Image>,
    /// Holds the files that `devices` reads.
    directory: tempfile::TempDir,
    devices: Devices,
}

/// How a mutant fared.
#[derive(Clone, Debug)]
pub struct Fate {
    /// What was done to the pool.
    pub damage: String,
    /// How far the visit came, and what was refused.
    pub told: String,
    /// What was promised and not kept.
    pub broken: Option<String>,
}

/// Notes panics of simulated threads from now on, in place of printing them. Those of other
/// threads are printed as before: a test that fails in another thread says why.
pub fn catch_panics() {
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !rt::is_simulated() {
            return loud(info);
        }
        let trace = std::backtrace::Backtrace::force_capture().to_string();
        let own = trace
            .lines()
            .filter(|line| line.contains("cenote") || line.contains("at ./"));
        let own: Vec<&str> = own.take(24).collect();
        let thread = rt::current();
        let name = thread.name().unwrap_or("?");
        let words = format!("thread {name}: {info}\n{}", own.join("\n"));
        PANICS.lock().push(words);
    }));
}

fn take_panics() -> Vec<String> {
    std::mem::take(&mut *PANICS.lock())
}

impl Herd {
    /// The pool of this kind.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn new(kind: &str) -> Result<Self> {
        let golden = Golden::find(kind)?.context("a kind of golden pool")?;
        let directory = tempfile::tempdir()?;
        let paths = golden.copy_to(directory.path())?;
        let images = paths.iter().map(image_of).collect::<Result<_>>()?;
        Ok(Self {
            kind: kind.to_owned(),
            manifest: golden.manifest,
            images,
            devices: Devices::open(paths)?,
            directory,
        })
    }

    /// What the blocks of the pool are.
    ///
    /// # Errors
    /// If it cannot be read, or nothing can be changed in it.
    pub fn structure(&self) -> Result<Structure<'_>> {
        let structure = Structure::read(&self.devices)?;
        let structure = structure.with_context(|| format!("{}: its blocks", self.kind))?;
        Ok(structure.in_place())
    }

    /// Where the pool's files are.
    pub fn directory(&self) -> &std::path::Path {
        self.directory.path()
    }

    /// The mutant with this number.
    ///
    /// # Errors
    /// If there is no room for a changed block.
    pub fn mutant(&self, structure: &Structure<'_>, seed: u64, number: u64) -> Result<Mutant> {
        let kind = self.kind.bytes().fold(seed, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(u64::from(byte))
        });
        let mut random = Random::new(kind.rotate_left(32).wrapping_add(number));
        let mut random = Random::new(random.next_u64());
        let made = match number % 8 {
            0..=4 => structure.table_mutant(&mut random),
            5 => structure.aimed_mutant(&mut random),
            _ => structure.mutant(&mut random),
        };
        made.with_context(|| format!("{} mutant {number}", self.kind))
    }

    /// The disks of the pool with a mutant's writes.
    ///
    /// # Errors
    /// If the mutant is none of this pool.
    pub fn disks(&self, mutant: &Mutant, chance: Chance) -> Result<Disks> {
        let mut images = self.images.clone();
        for write in &mutant.writes {
            let image = images.get_mut(write.device).context("a device")?;
            let offset = usize::try_from(write.offset)?;
            ensure!(offset + write.bytes.len() <= image.size(), "a place");
            image.write(offset, &write.bytes);
        }
        Ok(Disks::of(images, chance))
    }

    /// Puts a mutant through all that is done with a pool, in a world of its own.
    ///
    /// # Errors
    /// If the mutant is none of this pool.
    pub fn visit(&self, mutant: &Mutant, seed: u64) -> Result<Fate> {
        let disks = Arc::new(self.disks(mutant, Chance::new(seed))?);
        take_panics();
        let told: Arc<visit::Told> = Arc::default();
        let own = Arc::clone(&told);
        let world = World::simulated(seed).time_limit(TIME_MAX);
        let work = || world.run(|| visit::visit(&disks, &self.manifest, &own));
        let ended = catch_unwind(AssertUnwindSafe(work));
        let panics = take_panics();
        let broken = match (panics.is_empty(), &ended) {
            (true, Ok(())) => None,
            (true, Err(_)) => Some("it ended without a word".to_owned()),
            (false, _) => Some(panics.join("\n")),
        };
        let told = told.lock();
        Ok(Fate {
            damage: mutant.description.clone(),
            told: told.join("; "),
            broken,
        })
    }
}

fn image_of(path: &PathBuf) -> Result<Image> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    Ok(Image::of(&bytes))
}
