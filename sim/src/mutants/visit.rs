//! What is done with a mutant, step by step. A step that is refused is noted, and the next is done.

use crate::disks::Disks;
use crate::machine::{self, actor, named};
use crate::upkeep::{self, Keeper};
use anyhow::{Context, Result, ensure};
use cenote_base::ObjectId;
use cenote_base::rt::{self, Mutex, Random as Chance, ranks};
use cenote_base::{Env, RealEnv};
use cenote_device::Opener;
use cenote_dsl::write::{
    CloneDataset, CreateSnapshots, DestroyDataset, DestroySnapshots, PromoteDataset,
    RollbackDataset, SyncTask,
};
use cenote_dsl::{Dataset, DatasetType};
use cenote_pool::{ImportOptions, Pool, assemble, import};
use cenote_posix::write::{NewFile, WriteOptions, WriteSettings};
use cenote_posix::{FileKind, FileSystem};
use cenote_tests::manifest::{Key, Manifest};
use cenote_vdev::scan;
use std::sync::Arc;

/// Datasets that are worked with: golden pools have fewer, and mutants may claim more.
const DATASETS_MAX: usize = 40;
/// Snapshots that are cloned.
const BRANCHES_MAX: usize = 6;
/// Commands on devices.
const COMMANDS: usize = 4;
/// How many files of a dataset are read.
const FILES_MAX: usize = 60;
/// Bytes of a file that are read.
const READ_MAX: u64 = 96 << 10;
/// How deep directories and datasets are followed: a mutant's may be in a circle.
const DEPTH_MAX: usize = 8;

/// What was done and refused, for people.
pub type Told = Mutex<Vec<String>, ranks::SimRecord>;

struct Visit<'a> {
    pool: &'a Pool,
    told: &'a Told,
}

/// Does everything with the pool on these disks, twice.
pub fn visit(disks: &Arc<Disks>, manifest: &Manifest, told: &Told) {
    for round in 0..2 {
        note(
            told,
            "import",
            match open(disks, manifest) {
                Err(error) => Err(error),
                Ok(pool) => {
                    let visit = Visit { pool: &pool, told };
                    visit.all(disks, manifest, round);
                    Ok(())
                }
            },
        );
    }
}

fn note(told: &Told, what: &str, done: Result<()>) -> bool {
    let is_done = done.is_ok();
    let words = match done {
        Ok(()) => what.to_owned(),
        Err(error) => format!("{what}: {error:#}"),
    };
    rt::trace!("{words}");
    told.lock().push(words);
    is_done
}

fn open(disks: &Arc<Disks>, manifest: &Manifest) -> Result<Pool> {
    let candidates = assemble(scan(&disks.paths(), disks.as_ref()));
    let named = candidates
        .iter()
        .find(|candidate| candidate.name() == manifest.pool);
    let candidate = named.or(candidates.first()).context("no pool is found")?;
    let options = ImportOptions {
        read_only: false,
        hostid: 0x1234,
        force: true,
        missing_logs: true,
        opener: Arc::clone(disks) as Arc<dyn Opener>,
        ..ImportOptions::default()
    };
    let env: Arc<dyn Env> = Arc::new(RealEnv::new());
    let pool = import(candidate, &options, env)?;
    ensure!(pool.is_writable(), "it was to be opened for writing");
    Ok(pool)
}

impl Visit<'_> {
    fn step(&self, what: &str, done: Result<()>) -> bool {
        note(self.told, what, done)
    }

    fn task<T: SyncTask + 'static>(&self, what: &str, task: Result<T>) {
        let done = task.and_then(|task| Ok(self.pool.run_task(task).map(drop)?));
        self.step(what, done);
    }

    fn all(&self, disks: &Disks, manifest: &Manifest, round: usize) {
        let pool = self.pool;
        for _ in 0..3 {
            self.step("group", pool.sync().map_err(Into::into));
        }
        for (name, key) in &manifest.keys {
            self.step("key", self.load_key(name, key));
        }
        let names = self.names();
        for name in names.iter().filter(|name| !name.contains('@')) {
            self.step(name, self.work_in(name, round));
        }
        let (by, command) = (actor(), "zpool checkpoint");
        if round == 0 {
            self.step(
                "checkpoint",
                pool.take_checkpoint(&by, command).map_err(Into::into),
            );
        }
        for name in &names {
            self.snapshot(name, round);
        }
        self.step("scrub", upkeep::scrub(pool));
        self.step(
            "uncheckpoint",
            pool.discard_checkpoint(&by, command).map_err(Into::into),
        );
        self.step("status", self.look());
        self.task(
            "create",
            machine::new_file_system(&format!("{}/made{round}", manifest.pool)),
        );
        match round {
            0 => self.branch(&names),
            _ => self.destroy(&self.names()),
        }
        self.step("devices", self.devices(disks, round));
        let renamed = pool.reguid(None, &by, "zpool reguid");
        self.step("reguid", renamed.map(drop).map_err(Into::into));
        for _ in 0..4 {
            self.step("group", pool.sync().map_err(Into::into));
        }
        match pool.suspended() {
            None => self.step("export", pool.export().map_err(Into::into)),
            Some(cause) => {
                pool.abandon();
                self.step(&format!("suspended: {cause}"), Ok(()))
            }
        };
    }

    fn load_key(&self, name: &str, key: &Key) -> Result<()> {
        let material = match key {
            // It takes a second to stretch one.
            Key::Passphrase(_) => return Ok(()),
            Key::Hex(text) => text.clone().into_bytes(),
            Key::Raw(bytes) => bytes.clone(),
        };
        let dataset = machine::dataset(self.pool, name)?;
        let dsl = self.pool.dsl();
        Ok(dsl.load_key(dataset.directory(), &material, false)?)
    }

    /// Names of datasets and snapshots, parents before their children.
    fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut stack = vec![(self.pool.dsl().pool_name().as_str().to_owned(), 0)];
        while let Some((name, depth)) = stack.pop() {
            if names.len() >= DATASETS_MAX || depth > DEPTH_MAX {
                break;
            }
            let looked = self.children(&name, depth, &mut stack, &mut names);
            if let Err(error) = looked {
                self.step(&format!("list {name}"), Err(error));
            }
        }
        names
    }

    fn children(
        &self,
        name: &str,
        depth: usize,
        stack: &mut Vec<(String, usize)>,
        names: &mut Vec<String>,
    ) -> Result<()> {
        let head = machine::dataset(self.pool, name)?;
        names.push(name.to_owned());
        for snapshot in head.snapshots()? {
            names.push(format!("{name}@{}", String::from_utf8(snapshot.name)?));
        }
        for child in head.directory().children()? {
            let child = String::from_utf8(child.component)?;
            if child.starts_with('$') {
                continue;
            }
            stack.push((format!("{name}/{child}"), depth + 1));
        }
        Ok(())
    }

    /// Opens a head, its log replayed, reads it and writes to it.
    fn work_in(&self, name: &str, round: usize) -> Result<()> {
        let dataset = machine::dataset(self.pool, name)?;
        match dataset.dataset_type()? {
            DatasetType::Filesystem => {
                let fs = machine::files(self.pool, name, WriteSettings::default())?;
                let worked = self.files(&fs, round);
                let ended = fs
                    .dataset()
                    .map_err(Into::into)
                    .and_then(|open| Ok(open.end()?));
                worked.and(ended)
            }
            DatasetType::Volume => self.volume(name),
        }
    }

    fn volume(&self, name: &str) -> Result<()> {
        let volume = machine::volume(self.pool, name)?;
        let mut bytes = vec![0; 32 << 10];
        let read = volume.read(0, &mut bytes);
        let written = volume
            .write(4096, &bytes)
            .and_then(|()| volume.zero(0, 8192));
        let flushed = volume.flush();
        volume.close()?;
        Ok(read.and(written).and(flushed)?)
    }

    fn files(&self, fs: &FileSystem, round: usize) -> Result<()> {
        let (mut seen, mut failed) = (0, Vec::new());
        let mut stack = vec![(fs.root(), 0)];
        while let Some((directory, depth)) = stack.pop() {
            if seen > FILES_MAX || depth > DEPTH_MAX {
                break;
            }
            let looked = self.directory(fs, directory, (depth, round), &mut stack, &mut seen);
            failed.extend(looked.err().map(|error| format!("{error:#}")));
        }
        let new = NewFile::new(FileKind::Regular, 0o644);
        let file = fs
            .create(fs.root(), format!("made{round}").as_bytes(), &new)?
            .id();
        fs.write(file, 0, &[7; 70_000], WriteOptions::default())?;
        fs.fsync(file)?;
        fs.sync()?;
        ensure!(failed.is_empty(), "{}", failed.join(", "));
        Ok(())
    }

    fn directory(
        &self,
        fs: &FileSystem,
        id: ObjectId,
        (depth, round): (usize, usize),
        stack: &mut Vec<(ObjectId, usize)>,
        seen: &mut usize,
    ) -> Result<()> {
        let directory = fs.znode(id)?;
        let mut names = Vec::new();
        for entry in fs.read_directory(&directory, 0)?.skip(2).take(FILES_MAX) {
            let entry = entry?;
            names.push((entry.name, entry.target.object));
        }
        for (name, object) in names {
            *seen += 1;
            let file = fs.znode(object)?;
            if file.kind() == FileKind::Directory {
                stack.push((object, depth + 1));
                continue;
            }
            let size = file.attributes().size.min(READ_MAX);
            fs.read(&file, 0, &mut vec![0; usize::try_from(size)?])?;
            match (*seen + round) % 4 {
                0 => drop(fs.unlink(id, &name)?),
                1 => fs.truncate(object, 1000)?,
                2 => drop(fs.write(object, 500, &[9; 5000], WriteOptions::default())?),
                _ => {}
            }
        }
        Ok(())
    }

    fn snapshot(&self, name: &str, round: usize) {
        if name.contains('@') {
            return;
        }
        let snapshot = named(&format!("{name}@made{round}"));
        let task = snapshot.map(|snapshot| CreateSnapshots {
            names: vec![snapshot],
            properties: Vec::new(),
        });
        self.task("snapshot", task);
    }

    /// Clones, promotes and rolls back: what lists of dead blocks are for.
    fn branch(&self, names: &[String]) {
        let snapshots = names.iter().filter(|name| name.contains('@'));
        for (number, snapshot) in snapshots.take(BRANCHES_MAX).enumerate() {
            let pool = self.pool.dsl().pool_name().as_str();
            let clone = format!("{pool}/clone{number}");
            let task = named(snapshot).and_then(|origin| {
                Ok(CloneDataset {
                    origin,
                    name: named(&clone)?,
                    properties: Vec::new(),
                    created: None,
                })
            });
            self.task("clone", task);
            if number % 2 == 0 {
                self.task("promote", named(&clone).map(|name| PromoteDataset { name }));
            }
        }
        for name in names.iter().filter(|name| !name.contains('@')) {
            let made = named(&format!("{name}@made0"));
            self.task(
                "rollback",
                made.map(|snapshot| RollbackDataset { snapshot }),
            );
        }
    }

    /// Devices rest, come back and leave.
    fn devices(&self, disks: &Disks, round: usize) -> Result<()> {
        let mut keeper = Keeper {
            random: Chance::new(round as u64),
            free: Vec::new(),
            is_bold: true,
        };
        keeper.work(disks, self.pool, COMMANDS)
    }

    /// What status and lists look at.
    fn look(&self) -> Result<()> {
        let pool = self.pool;
        pool.space();
        pool.dsl().pool_properties()?;
        pool.vdevs().status();
        pool.is_discarding()?;
        pool.scan_status()?;
        for name in self.names() {
            let dataset = machine::dataset(pool, &name)?;
            let of = |dataset: &Dataset| dataset.phys().guid;
            of(&dataset);
        }
        Ok(())
    }

    fn destroy(&self, names: &[String]) {
        for name in names.iter().rev() {
            let done = named(name);
            match name.contains('@') {
                true => self.task(
                    "destroy snapshot",
                    done.map(|name| DestroySnapshots {
                        names: vec![name],
                        defer: false,
                    }),
                ),
                false => self.task("destroy", done.map(|name| DestroyDataset { name })),
            }
        }
    }
}
