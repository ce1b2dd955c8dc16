//! Makes drawn changes on a pool and in the model, and compares.

use super::change::{self, Change};
use super::check;
use super::draw::{any_file_system, draw};
use super::foreign_sets::{Foreign, is_foreign};
use super::model::Model;
use crate::pool;
use crate::random::Random;
use crate::site::Site;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const POOL: &str = "tank";
/// Devices and options of the pool.
const LAYOUTS: [(&str, bool); 4] = [
    ("single", false),
    ("mirror", false),
    ("raidz1", false),
    ("single", true),
];
/// The key of an encrypted pool, in hex.
const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
/// Files of a file system are drawn from so many names.
const NAMES: u64 = 7;
/// The largest file.
const SIZE_MAX: u64 = 150_000;
/// Steps between two comparisons of everything.
const COMPARE_INTERVAL: u64 = 50;
/// Milliseconds that a command has, at most, before its daemon is killed.
const KILL_DELAY: u64 = 60;

/// A run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Chooses the layout and all steps.
    pub seed: u64,
    /// How many steps.
    pub steps: u64,
    /// Steps between two judgements by OpenZFS, with an export and an import.
    pub judge_interval: u64,
    /// How often the daemon is killed under a command.
    pub kills: u64,
    /// Operations of OpenZFS after each judgement.
    pub foreign_operations: u64,
}

/// What a run did.
#[derive(Debug, Default)]
pub struct Report {
    /// What was chosen.
    pub setup: String,
    /// Steps by kind.
    pub steps: BTreeMap<&'static str, u64>,
    /// Commands that were to be refused, and were.
    pub refused: u64,
    /// Destructions whose freed space was compared with the prediction.
    pub reclaimed: u64,
    /// Commands that a daemon was killed under, and how many of them were carried out.
    pub killed: (u64, u64),
}

/// A pool and its model.
pub struct Session {
    pub(super) site: Site,
    /// What the pool may be encrypted with.
    _key: tempfile::NamedTempFile,
    pub(super) model: Model,
    /// What the pool's checkpoint has.
    pub(super) checkpoint: Option<Model>,
    /// Draws what happens to checkpoints.
    pub(super) chance: Random,
    pub(super) random: Random,
    pub(super) foreign: Foreign,
    serial: u64,
    /// What snapshots refer to, by number: that never changes.
    pub(super) referenced: BTreeMap<u64, u64>,
    report: Report,
}

/// Makes steps from a seed; an error says what differed, and after which of them.
pub fn run(options: &Options) -> Result<Report> {
    let mut session = Session::new(options.seed, options.foreign_operations)?;
    let kill_interval = options.steps / (options.kills + 1);
    for step in 1..=options.steps {
        let is_kill = options.kills > 0 && step.is_multiple_of(kill_interval.max(1));
        let done = match is_kill {
            true => session.kill(),
            false => session.step(),
        };
        done.with_context(|| format!("step {step}"))?;
        if step.is_multiple_of(COMPARE_INTERVAL) || step == options.steps {
            session
                .compare()
                .with_context(|| format!("after step {step}"))?;
        }
        if step.is_multiple_of(options.judge_interval) {
            session
                .judge()
                .with_context(|| format!("after step {step}"))?;
        }
    }
    session.finish()
}

impl Session {
    /// A new pool, its layout by the seed. OpenZFS has no keys: where it takes turns, the pool is
    /// not encrypted.
    pub fn new(seed: u64, foreign_operations: u64) -> Result<Self> {
        let (layout, is_encrypted) = LAYOUTS[(seed % LAYOUTS.len() as u64) as usize];
        let is_encrypted = is_encrypted && foreign_operations == 0;
        let key = tempfile::NamedTempFile::new()?;
        fs::write(key.path(), KEY)?;
        let encrypted = format!(
            "-O encryption=on -O keyformat=hex -O keylocation=file://{}",
            key.path().display()
        );
        let encrypted = if is_encrypted { &encrypted } else { "" };
        let mut options = format!("-O atime=off {encrypted}");
        let mut random = Random::new(seed);
        let compression = *random.choose(&["off", "lz4", "zstd-1"]);
        options.push_str(&format!(" -O compression={compression}"));
        let site = Site::create(layout, 1024, &options)?;
        let report = Report {
            setup: format!("{layout}, encrypted: {is_encrypted}, compression {compression}"),
            ..Report::default()
        };
        Ok(Self {
            site,
            _key: key,
            model: Model::new(POOL, is_encrypted),
            checkpoint: None,
            chance: Random::new(!seed),
            random,
            foreign: Foreign::new(foreign_operations),
            serial: 0,
            referenced: BTreeMap::new(),
            report,
        })
    }

    pub(super) fn count(&mut self, kind: &'static str) {
        *self.report.steps.entry(kind).or_default() += 1;
    }

    /// Makes one step: files are written, or a command is given.
    pub fn step(&mut self) -> Result<()> {
        self.some_checkpoint().context("a checkpoint")?;
        self.serial += 1;
        if self.random.below(10) < 3 {
            self.count("write");
            return self.write();
        }
        let Some(change) = draw(&self.model, &mut self.random, self.serial) else {
            return Ok(());
        };
        let line = change.line();
        self.make(&change).with_context(|| line)
    }

    /// Gives a command, which must succeed or be refused as the model says.
    fn make(&mut self, change: &Change) -> Result<()> {
        let after = self.model.after(change);
        let count = |model: &Model| model.sets.values().filter(|set| set.is_foreign).count();
        if after
            .as_ref()
            .is_some_and(|after| count(after) < count(&self.model))
        {
            // OpenZFS would miss it.
            return Ok(());
        }
        self.count(change.kind());
        let told = match (change, &after) {
            (Change::DestroySnapshots { defer: false, .. }, Some(_))
                if self.random.below(3) == 0 =>
            {
                Some(self.told_space(change)?)
            }
            _ => None,
        };
        let line = change.line();
        match after {
            None => {
                self.site.fails(&line)?;
                self.report.refused += 1;
            }
            Some(after) => {
                self.site.ok(&line)?;
                self.model = after;
            }
        }
        if let Some((before, told)) = told {
            let now = self.snapshot_space()?;
            ensure!(
                before - now == told,
                "{} came back, not {told}",
                before - now
            );
            self.report.reclaimed += 1;
        }
        self.look()
    }

    /// The space of all snapshots, and the predicted space that destroying some of them frees.
    fn told_space(&mut self, change: &Change) -> Result<(u64, u64)> {
        let Change::DestroySnapshots {
            of,
            ranges,
            recursive,
            ..
        } = change
        else {
            bail!("it destroys no snapshots");
        };
        self.site.ok("zpool sync tank")?;
        let list = change::list(ranges);
        let r = if *recursive { "-r " } else { "" };
        let text = self.site.ok(&format!("cenote space -Hp {r}{of}@{list}"))?;
        let told = text.lines().find_map(|line| line.strip_prefix("reclaim\t"));
        Ok((self.snapshot_space()?, told.context("a sum")?.parse()?))
    }

    fn snapshot_space(&self) -> Result<u64> {
        let text = self.site.ok("zfs list -Hp -r -o usedbysnapshots tank")?;
        let mut sum = 0;
        for line in text.lines() {
            sum += line.parse::<u64>()?;
        }
        Ok(sum)
    }

    /// Compares the list of everything; what snapshots refer to does not change.
    fn look(&mut self) -> Result<()> {
        let rows = check::list(&self.site, POOL)?;
        check::listing(&self.model, &rows)?;
        for (name, set) in &self.model.sets {
            for snap in &set.snaps {
                let full = format!("{name}@{}", snap.name);
                let now = check::number(&rows[&full], "referenced");
                let first = *self.referenced.entry(snap.id).or_insert(now);
                ensure!(
                    now == first,
                    "{full} refers to {now} bytes, and once to {first}"
                );
            }
        }
        Ok(())
    }

    /// Changes some files.
    fn write(&mut self) -> Result<()> {
        let of = any_file_system(&self.model, &mut self.random);
        let root = self.site.path(&of);
        let set = self.model.sets.get_mut(&of).context("a dataset")?;
        let files = Arc::make_mut(&mut set.files);
        for _ in 0..=self.random.below(3) {
            let name = format!("f{}", self.random.below(NAMES));
            let path = root.join(&name);
            let random = &mut self.random;
            match files.get_mut(&name) {
                Some(_) if random.below(4) == 0 => {
                    fs::remove_file(&path)?;
                    files.remove(&name);
                }
                Some(bytes) if random.below(5) > 0 => {
                    let size = bytes.len() as u64;
                    let at = random.below(size + 1);
                    let patch = some_bytes(random, SIZE_MAX - at.min(SIZE_MAX - 1));
                    let file = File::options().write(true).open(&path)?;
                    file.write_all_at(&patch, at)?;
                    let bytes = Arc::make_mut(bytes);
                    let end = at as usize + patch.len();
                    bytes.resize(bytes.len().max(end), 0);
                    bytes[at as usize..end].copy_from_slice(&patch);
                }
                _ => {
                    let bytes = some_bytes(random, SIZE_MAX);
                    fs::write(&path, &bytes)?;
                    files.insert(name, Arc::new(bytes));
                }
            }
        }
        Ok(())
    }

    /// Compares everything there is.
    pub fn compare(&mut self) -> Result<()> {
        check::contents(&self.site, &self.model)?;
        for (name, files) in self.model.foreign_clones() {
            let place = pool::mount(self.site.cenote(), name)?;
            let compared = check::compare(&place, files);
            pool::unmount(self.site.cenote(), &place)?;
            compared.with_context(|| name.clone())?;
        }
        self.site.ok("zpool sync tank")?;
        let rows = check::list(&self.site, POOL)?;
        check::listing(&self.model, &rows)?;
        check::sums(&self.model, &rows)?;
        self.site.ok("cenote verify --quiet tank")?;
        Ok(())
    }

    /// Imports the pool, and mounts what is a file system of ours: OpenZFS's library makes datasets
    /// that are none.
    pub(super) fn import(&self, options: &str) -> Result<()> {
        if self.foreign.operations == 0 {
            return self.site.import(&format!("{options} -l"));
        }
        self.site.import(&format!("{options} -N"))?;
        for (name, row) in check::list(&self.site, POOL)? {
            if row["type"] == "filesystem" && !is_foreign(&name) {
                self.site.ok(&format!("zfs mount {name}"))?;
            }
        }
        Ok(())
    }

    /// OpenZFS checks the pool.
    pub fn judge(&mut self) -> Result<()> {
        self.site.export()?;
        self.site.judge()?;
        let is_shared = self.foreign.operations > 0;
        if is_shared {
            self.foreign_turn()?;
            self.site.judge()?;
        }
        self.import("")?;
        if is_shared {
            let rows = check::list(&self.site, POOL)?;
            self.model.adopt(&rows)?;
        }
        self.look()?;
        check::contents(&self.site, &self.model)
    }

    /// Kills the daemon under a command, of which all must be done or nothing.
    pub fn kill(&mut self) -> Result<()> {
        self.count("kill");
        let (change, after) = loop {
            self.serial += 1;
            let drawn = draw(&self.model, &mut self.random, self.serial);
            let drawn = drawn.filter(Change::is_atomic);
            if let Some(change) = drawn
                && let Some(after) = self.model.after(&change)
            {
                break (change, after);
            }
        };
        self.site.ok("zpool sync tank")?;
        let delay = Duration::from_millis(self.random.below(KILL_DELAY));
        let (line, site) = (change.line(), &self.site);
        thread::scope(|scope| -> Result<()> {
            let command = scope.spawn(|| site.ok(&line));
            thread::sleep(delay);
            site.kill()?;
            // Whether it was answered is not what counts.
            let _ = command.join();
            Ok(())
        })?;
        self.site.start()?;
        // Mounts below each other are dead all at once, and were complained of one by one.
        let log = fs::read_to_string(self.site.cenote().directory().join("daemon.log"))?;
        ensure!(!log.contains("dead mount"), "{log}");
        self.import("-f")?;
        let rows = check::list(&self.site, POOL)?;
        let undone = check::listing(&self.model, &rows);
        if let Err(undone) = undone {
            let done = check::listing(&after, &rows);
            done.with_context(|| format!("{line}: done in part: {undone:#}"))?;
            self.model = after;
            self.report.killed.1 += 1;
        }
        self.report.killed.0 += 1;
        self.compare()
            .with_context(|| format!("killed under {line}"))
    }

    /// Ends the run, with OpenZFS's judgement.
    pub fn finish(self) -> Result<Report> {
        self.site.finish()?;
        Ok(self.report)
    }
}

/// Up to `most` bytes, of which half compress.
fn some_bytes(random: &mut Random, most: u64) -> Vec<u8> {
    let most = match random.below(3) {
        0 => most.min(5000),
        _ => most,
    };
    let size = 1 + random.below(most.max(1)) as usize;
    let mut bytes = vec![random.below(256) as u8; size];
    if random.below(2) == 0 {
        random.fill(&mut bytes);
    }
    bytes
}
