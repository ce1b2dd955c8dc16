//! `cargo xtask cloud`: a pool in a directory as its store, with random failures, and a model.
//!
//! Two machines share the store. One of them has the pool; it writes and removes files one after
//! the other, each made durable, and the model numbers these changes. Meanwhile its daemon is
//! killed, the store becomes unreachable for a while, its local side is lost, or the other machine
//! takes over the pool. The machine with the pool then finds its state after some number of
//! changes. If the local side is left, these are all changes. Otherwise they include all up to the
//! last successful `cenote cloud sync`. At the end OpenZFS checks a copy.

mod model;

use crate::random::Random;
use crate::referee;
use crate::site::Site;
use anyhow::{Context, Result, ensure};
use model::{Change, Model};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Files that there are at most.
const FILES: u64 = 24;
/// Bytes of a file at most.
const BYTES_MAX: u64 = 3 << 20;

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What it is drawn from.
    pub seed: u64,
    /// Steps.
    pub steps: u64,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Changes of files.
    pub changes: u64,
    /// Daemons killed.
    pub kills: u64,
    /// Local sides lost.
    pub losses: u64,
    /// Times that the other machine took over what was not released.
    pub takeovers: u64,
    /// Exports, and imports by either machine.
    pub moves: u64,
    /// Times that the store was away.
    pub outages: u64,
    /// Changes that were durable on one machine alone, and lost with it.
    pub undone: u64,
}

struct World {
    machines: [Site; 2],
    /// Which has the pool.
    owner: usize,
    store: PathBuf,
    random: Random,
    model: Model,
    report: Report,
    _directory: tempfile::TempDir,
}

/// Goes through a history.
///
/// # Errors
/// If anything is not as it should be.
pub fn run(options: &Options) -> Result<Report> {
    let directory = tempfile::tempdir()?;
    let mut world = World {
        machines: [Site::new("tank")?, Site::new("tank")?],
        owner: 0,
        store: directory.path().join("store"),
        random: Random::new(options.seed),
        model: Model::default(),
        report: Report::default(),
        _directory: directory,
    };
    for machine in &world.machines {
        machine.ok("cenote settings set cloud_commit_seconds=1 cloud_log_bytes=32M")?;
    }
    let url = world.url();
    let root = world.site().path("").display().to_string();
    let features = "-O compression=off -O recordsize=64K";
    world.site().ok(&format!(
        "zpool create -R {root} {features} tank {url}?size=4G"
    ))?;
    for step in 0..options.steps {
        world.step().with_context(|| format!("step {step}"))?;
    }
    world.finish()?;
    Ok(world.report)
}

impl World {
    fn site(&self) -> &Site {
        &self.machines[self.owner]
    }

    fn url(&self) -> String {
        format!("file://{}", self.store.display())
    }

    fn step(&mut self) -> Result<()> {
        match self.random.below(100) {
            0..70 => self.change(),
            70..80 => self.sync(),
            80..84 => self.kill(),
            84..87 => self.lose(),
            87..90 => self.take_over(),
            90..95 => self.hand_over(),
            _ => self.outage(),
        }
    }

    /// Writes or removes a file, and has that durable.
    fn change(&mut self) -> Result<()> {
        let name = format!("file{}", self.random.below(FILES));
        let directory = self.site().path("tank");
        let path = directory.join(&name);
        if self.random.below(5) == 0 && path.exists() {
            fs::remove_file(&path)?;
            File::open(&directory)?.sync_all()?;
            self.model.push(Change::Remove(name));
        } else {
            let length = 1 + self.random.below(BYTES_MAX);
            let seed = self.random.next_u64();
            let bytes = model::contents(seed, length);
            let new = directory.join("new");
            let mut file = File::create(&new)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(&directory)?.sync_all()?;
            self.model.push(Change::Put(name, seed, length));
        }
        self.report.changes += 1;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.site().ok("cenote cloud sync -q tank")?;
        self.model.confirm();
        Ok(())
    }

    /// The daemon is killed; the local side is kept.
    fn kill(&mut self) -> Result<()> {
        self.report.kills += 1;
        self.site().crash()?;
        self.prepare()?;
        self.import("")?;
        self.check(self.model.now())
    }

    /// The daemon dies and the local side with it.
    fn lose(&mut self) -> Result<()> {
        self.report.losses += 1;
        self.site().kill()?;
        fs::remove_dir_all(self.site().cenote().directory().join("state/cloud"))?;
        self.site().start()?;
        self.prepare()?;
        self.import("-f")?;
        self.check(self.model.confirmed())
    }

    /// The other machine takes the pool over from one that is still at it.
    fn take_over(&mut self) -> Result<()> {
        self.report.takeovers += 1;
        let before = self.owner;
        self.owner = 1 - before;
        self.import("-f")?;
        self.check(self.model.confirmed())?;
        // Without anything to write, it notices that only when it releases the pool.
        let old = self.machines[before].cenote();
        let told = old.run("cenote", &["cloud", "sync", "-q", "tank"])?;
        let is_told = told.stderr.contains("taken over by") || told.stderr.contains("suspended");
        ensure!(told.code == Some(0) || is_told, "{}", told.report());
        let left = old.run("zpool", &["export", "-f", "tank"])?;
        let is_told = left.stderr.contains("taken over by");
        ensure!(left.code == Some(0) || is_told, "{}", left.report());
        Ok(())
    }

    /// The pool is exported, and imported by any machine; or what is not uploaded stays.
    fn hand_over(&mut self) -> Result<()> {
        self.report.moves += 1;
        if self.random.below(3) == 0 {
            self.site().ok("zpool export -n tank")?;
        } else {
            self.site().ok("zpool export tank")?;
            self.model.confirm();
            self.owner = self.random.below(2) as usize;
        }
        self.import("")?;
        self.check(self.model.now())
    }

    /// The store goes away for a moment, in which files are changed or the daemon dies.
    fn outage(&mut self) -> Result<()> {
        self.report.outages += 1;
        let away = self.store.with_extension("away");
        fs::rename(&self.store, &away)?;
        if self.random.below(2) == 0 {
            // Changes that need what this machine has never seen wait for the store.
            let back = self.store.clone();
            let pause = Duration::from_millis(self.random.below(1500));
            let return_it = thread::spawn(move || {
                thread::sleep(pause);
                fs::rename(&away, &back)
            });
            for _ in 0..1 + self.random.below(4) {
                self.change()?;
            }
            return_it.join().ok().context("it panicked")??;
            return self.check(self.model.now());
        }
        let killed = self.site().kill();
        fs::rename(&away, &self.store)?;
        killed?;
        self.report.kills += 1;
        self.site().start()?;
        self.prepare()?;
        self.import("")?;
        self.check(self.model.now())
    }

    /// A new daemon's settings.
    fn prepare(&self) -> Result<()> {
        let set = "cenote settings set cloud_commit_seconds=1 cloud_log_bytes=32M";
        self.site().ok(set).map(drop)
    }

    fn import(&self, options: &str) -> Result<()> {
        let (root, url) = (self.site().path(""), self.url());
        let root = root.display();
        self.site()
            .ok(&format!("zpool import -R {root} {options} -d {url} tank"))?;
        Ok(())
    }

    /// Compares the files with the model, which they may be behind as far as `from`.
    fn check(&mut self, from: usize) -> Result<()> {
        let found = found(&self.site().path("tank"))?;
        let now = self.model.now();
        let at = self.model.find(&found, from);
        let at = at.with_context(|| {
            format!("the files are as after none of the changes {from} to {now}: {found:?}")
        })?;
        self.report.undone += (now - at) as u64;
        self.model.go_back(at);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.check(self.model.now())?;
        self.site().ok("zpool export tank")?;
        let url = self.url();
        self.site().ok(&format!("cenote cloud verify -q {url}"))?;
        let images = self.store.with_extension("images");
        fs::create_dir_all(&images)?;
        let image = images.join("tank.img").display().to_string();
        self.site()
            .ok(&format!("cenote cloud copy -q {url} {image}"))?;
        referee::judge(&images, "tank");
        Ok(())
    }
}

/// The digest of each file.
fn found(directory: &Path) -> Result<model::Files> {
    let mut files = model::Files::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // What was not renamed yet is nothing yet.
        if name != "new" {
            files.insert(name, model::digest(&fs::read(entry.path())?));
        }
    }
    Ok(files)
}
