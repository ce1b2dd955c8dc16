//! Space limits in the simulation: many writers, full pools, and an independent check.
//!
//! A small tree of datasets has quotas, reservations and owners with limits, drawn from a seed. In
//! each round several writers work at the same time, while another thread changes the tree. Three
//! properties are checked.
//!
//! - A writer is refused only if the worst-case needs of all writers below some limit exceed it.
//!   Overwriting in place counts for little there: its space is free again after each group.
//! - When all is on disk, no limit is exceeded by more than [`EXCESS`].
//! - Without other writers, `available` is exact: that much can be written, and if nothing is
//!   available the right limit refuses the write. Files can always be removed.
//!
//! The check uses the figures on disk alone, never the code that accounts room. A writer that waits
//! forever is detected by the world, since all threads wait then. At the end the pool's accounts
//! must add up, also after a power cut.

use crate::disks::Disks;
use crate::machine::{self, DISK_SIZE, Layout, named};
use crate::wrong::Wrong;
use anyhow::{Context, Result, bail, ensure};
use cenote_base::ObjectId;
use cenote_base::rt::{self, Random, World};
use cenote_dsl::write::{
    CloneDataset, CreateSnapshots, DestroyDataset, DestroySnapshots, RenameDataset,
    RollbackDataset, SetProperties, Setting,
};
use cenote_dsl::{Dataset, DatasetName, Stored};
use cenote_pool::{Pool, SyncError};
use cenote_posix::write::{NewFile, SetAttributes, WriteOptions, WriteSettings};
use cenote_posix::{AccountKind, FileKind, FileSystem, Fuid, PosixError};
use std::sync::Arc;

/// A limit may be exceeded by one transaction and its metadata.
const EXCESS: u64 = 1 << 20;
/// The largest write.
const WRITE_MAX: u64 = 256 << 10;
/// What an operation takes beside its data, at worst.
const OVERHEAD: u64 = 48 << 10;
/// What writing again in place needs beside what is there: all writes at once need no more.
const IN_PLACE: u64 = 2 << 20;
/// Rounds of a history.
const ROUNDS: usize = 5;
/// Operations of each writer in a round.
const OPERATIONS: usize = 10;
/// Groups after which all that was freed can be used.
const SETTLING: usize = 4;
/// The owner of some files, its group, and its project.
const OWNERS: [(AccountKind, u64); 3] = [
    (AccountKind::User, 1000),
    (AccountKind::Group, 2000),
    (AccountKind::Project, 3000),
];
const RECORD_SIZE: u64 = 64 << 10;

const DATASETS: [&str; 6] = [
    "sim/a", "sim/a/x", "sim/a/y", "sim/b", "sim/b/x", "sim/fill",
];

/// What a writer does next.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Create(u64),
    Append(usize, u64),
    Rewrite(usize),
    Truncate(usize),
    Remove(usize),
}

impl Operation {
    fn draw(random: &mut Random, is_in_place: bool) -> Self {
        let (file, size) = (random.index(1 << 16), 1 + random.below(WRITE_MAX));
        match random.below(10) {
            _ if is_in_place => Self::Rewrite(file),
            0..4 => Self::Create(size),
            4..6 => Self::Append(file, size),
            6..8 => Self::Rewrite(file),
            8 => Self::Truncate(file),
            _ => Self::Remove(file),
        }
    }

    /// Its worst-case size.
    fn cost(self) -> u64 {
        let rounded = |size: u64| size.next_multiple_of(RECORD_SIZE) + RECORD_SIZE + OVERHEAD;
        match self {
            Self::Create(size) | Self::Append(_, size) => rounded(size),
            // A snapshot may keep what was there before.
            Self::Rewrite(_) => rounded(WRITE_MAX),
            Self::Truncate(_) | Self::Remove(_) => OVERHEAD,
        }
    }
}

/// A writer of files in one dataset.
struct Member {
    name: String,
    number: usize,
    fs: Arc<FileSystem>,
    files: Vec<(ObjectId, String)>,
    is_owned: bool,
    made: u64,
    random: Random,
    refusals: Vec<String>,
}

impl Member {
    fn open(pool: &Pool, name: &str, number: usize, random: Random) -> Result<Self> {
        let settings = WriteSettings {
            record_size: RECORD_SIZE,
            ..WriteSettings::default()
        };
        Ok(Self {
            name: name.to_owned(),
            number,
            fs: machine::files(pool, name, settings)?,
            files: Vec::new(),
            is_owned: number % 2 == 1,
            made: 0,
            random,
            refusals: Vec::new(),
        })
    }

    /// Looks up the files that there are.
    fn find_files(&mut self) -> Result<(), PosixError> {
        let root = self.fs.znode(self.fs.root())?;
        self.files.clear();
        for entry in self.fs.read_directory(&root, 0)? {
            let entry = entry?;
            let name = String::from_utf8_lossy(&entry.name).into_owned();
            if name.starts_with('f') {
                self.files.push((entry.target.object, name));
            }
        }
        Ok(())
    }

    fn bytes(&mut self, size: u64) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(size).expect("small")];
        // Some of it can be compressed, where that is on.
        let filled = match self.random.happens(30) {
            true => bytes.len() / 8,
            false => bytes.len(),
        };
        self.random.fill(&mut bytes[..filled]);
        bytes
    }

    fn create(&mut self, size: u64) -> Result<(), PosixError> {
        self.made += 1;
        let name = format!("f{}-{}", self.number, self.made);
        let mut new = NewFile::new(FileKind::Regular, 0o644);
        if self.is_owned {
            new = new.owned_by(OWNERS[0].1, OWNERS[1].1);
        }
        let made = self.fs.create(self.fs.root(), name.as_bytes(), &new)?.id();
        self.files.push((made, name));
        if self.is_owned {
            let set = SetAttributes {
                project: Some(OWNERS[2].1),
                ..SetAttributes::default()
            };
            self.fs.set_attributes(made, &set)?;
        }
        let bytes = self.bytes(size);
        self.fs.write(made, 0, &bytes, WriteOptions::default())?;
        Ok(())
    }

    fn size(&self, file: ObjectId) -> Result<u64, PosixError> {
        Ok(self.fs.znode(file)?.attributes().size)
    }

    fn operate(&mut self, operation: Operation) -> Result<(), PosixError> {
        let picked = |index: usize| {
            let file = self.files.get(index % self.files.len().max(1));
            file.map(|(id, _)| *id)
        };
        let options = WriteOptions::default();
        match operation {
            Operation::Create(size) => self.create(size)?,
            Operation::Append(index, size) => {
                if let Some(file) = picked(index) {
                    let (at, bytes) = (self.size(file)?, self.bytes(size));
                    self.fs.write(file, at, &bytes, options)?;
                }
            }
            Operation::Rewrite(index) => {
                if let Some(file) = picked(index) {
                    let size = self.size(file)?.min(WRITE_MAX);
                    let bytes = self.bytes(size);
                    self.fs.write(file, 0, &bytes, options)?;
                }
            }
            Operation::Truncate(index) => {
                if let Some(file) = picked(index) {
                    self.fs.truncate(file, self.size(file)? / 2)?;
                }
            }
            Operation::Remove(index) => {
                if !self.files.is_empty() {
                    let index = index % self.files.len();
                    self.remove(index)?;
                }
            }
        }
        Ok(())
    }

    fn remove(&mut self, index: usize) -> Result<(), PosixError> {
        let (_, name) = self.files.swap_remove(index);
        self.fs.unlink(self.fs.root(), name.as_bytes()).map(drop)
    }

    /// Does operations until one of them is refused for lack of room.
    fn work(&mut self, operations: &[Operation]) -> Result<()> {
        self.refusals.clear();
        for operation in operations {
            let done = self.operate(*operation);
            rt::trace!("{} {operation:?}: {done:?}", self.name);
            match done {
                Ok(()) => {}
                Err(PosixError::NoSpace | PosixError::QuotaExceeded) => {
                    ensure!(
                        !matches!(operation, Operation::Truncate(_) | Operation::Remove(_)),
                        Wrong(format!("{}: {operation:?} is refused", self.name))
                    );
                    self.refusals.push(format!("{operation:?}: {done:?}"));
                }
                Err(error) => return Err(error).context(self.name.clone()),
            }
        }
        Ok(())
    }
}

/// A limit that a dataset is below, by the figures on disk.
struct Level {
    /// What is limited.
    name: String,
    /// Whether all datasets below it count, or only this one.
    is_tree: bool,
    used: u64,
    limit: u64,
    /// What the dataset may take there beside what is left, because it is reserved.
    spare: u64,
}

impl Level {
    fn left(&self) -> u64 {
        self.limit
            .saturating_sub(self.used)
            .saturating_add(self.spare)
    }
}

fn number(dataset: &Dataset, name: &str) -> Result<u64> {
    let properties = dataset.directory().properties()?;
    Ok(match properties.get(name) {
        Some(Stored::Number(number)) => *number,
        _ => 0,
    })
}

/// All limits that a dataset is below, but for those of owners.
fn levels(pool: &Pool, name: &str) -> Result<Vec<Level>> {
    let dataset = machine::dataset(pool, name)?;
    let mut levels = Vec::new();
    let limit = number(&dataset, "refquota")?;
    if limit != 0 {
        levels.push(Level {
            name: name.to_owned(),
            is_tree: false,
            used: dataset.phys().referenced_bytes,
            limit,
            spare: 0,
        });
    }
    let reserved = number(&dataset, "refreservation")?;
    let mut spare = reserved.saturating_sub(dataset.phys().unique_bytes);
    for directory in dataset.directory().ancestry() {
        let phys = directory.phys();
        let usable = match directory.parent() {
            Some(_) => u64::MAX,
            None => pool.dsl().usable_space()?,
        };
        let quota = if phys.quota == 0 {
            u64::MAX
        } else {
            phys.quota
        };
        let limit = quota.min(usable);
        if limit != u64::MAX {
            levels.push(Level {
                name: directory.name().as_str().to_owned(),
                is_tree: true,
                used: phys.used_bytes,
                limit,
                spare,
            });
        }
        spare += phys.reservation.saturating_sub(phys.used_bytes);
    }
    Ok(levels)
}

/// Whether one dataset is another one, or below it.
fn is_below(name: &str, top: &str) -> bool {
    name == top
        || name
            .strip_prefix(top)
            .is_some_and(|rest| rest.starts_with('/'))
}

/// A pool and its writers.
struct Crowd {
    pool: Pool,
    members: Vec<Member>,
    random: Random,
    snapshots: Vec<String>,
    clones: Vec<String>,
    made: u64,
    is_compressed: bool,
}

impl Crowd {
    fn new(disks: &Arc<Disks>, layout: &Layout, mut random: Random) -> Result<Self> {
        let pool = machine::create(disks, layout)?;
        for name in DATASETS {
            pool.run_task(machine::new_file_system(name)?)?;
        }
        let mut members = Vec::new();
        for (number, name) in DATASETS.into_iter().enumerate() {
            members.push(Member::open(&pool, name, number, random.fork())?);
        }
        Ok(Self {
            pool,
            members,
            random,
            snapshots: Vec::new(),
            clones: Vec::new(),
            made: 0,
            is_compressed: layout.is_compressed(),
        })
    }

    /// Until what was freed can be used.
    fn settle(&self) -> Result<()> {
        for _ in 0..SETTLING {
            self.pool.sync()?;
        }
        Ok(())
    }

    fn set(&self, name: &str, property: &str, value: u64) -> Result<(), SyncError> {
        let settings = vec![Setting {
            name: property.to_owned(),
            value: Some(Stored::Number(value)),
        }];
        let name = DatasetName::parse(name).expect("a name of ours");
        let set = self.pool.run_task(SetProperties { name, settings });
        rt::trace!("set {property}={value}: {set:?}");
        set.map(drop)
    }

    /// Draws a change of the tree, or of its limits. Many are refused, as they have to be.
    fn change(&mut self) -> Result<()> {
        let index = self.random.index(DATASETS.len() - 1);
        let name = DATASETS[index];
        let mebibytes = |random: &mut Random| (1 + random.below(6)) << 20;
        match self.random.below(14) {
            0..3 => {
                let value = mebibytes(&mut self.random);
                let _ = self.set(name, "quota", value);
            }
            3..5 => {
                let value = mebibytes(&mut self.random);
                let _ = self.set(name, "refquota", value);
            }
            5 => {
                let value = mebibytes(&mut self.random);
                let _ = self.set(name, "reservation", value);
            }
            6 => {
                let value = mebibytes(&mut self.random);
                let _ = self.set(name, "refreservation", value);
            }
            7 => {
                let (kind, id) = OWNERS[self.random.index(OWNERS.len())];
                let value = mebibytes(&mut self.random) / 2;
                let is_objects = self.random.happens(20);
                let fs = &self.members[index].fs;
                // What is there already is no fault.
                let account = fs.account(kind, Fuid(id))?;
                let value = match is_objects {
                    true => account.objects_used + 3,
                    false => account.used.max(value),
                };
                fs.set_quota(kind, id, value, is_objects)?;
            }
            8 => {
                for property in ["quota", "refquota", "reservation", "refreservation"] {
                    let _ = self.set(name, property, 0);
                }
            }
            _ => self.change_tree(name)?,
        }
        Ok(())
    }

    fn change_tree(&mut self, name: &str) -> Result<()> {
        self.made += 1;
        let new = format!("{name}@s{}", self.made);
        let picked = match self.snapshots.is_empty() {
            true => None,
            false => Some(self.random.index(self.snapshots.len())),
        };
        match (self.random.below(8), picked) {
            (0..3, _) | (_, None) => {
                let task = CreateSnapshots {
                    names: vec![named(&new)?],
                    properties: Vec::new(),
                };
                if self.pool.run_task(task).is_ok() {
                    self.snapshots.push(new);
                }
            }
            (3..5, Some(picked)) => {
                let task = DestroySnapshots {
                    names: vec![named(&self.snapshots[picked])?],
                    defer: false,
                };
                if self.pool.run_task(task).is_ok() {
                    self.snapshots.swap_remove(picked);
                }
            }
            (5, Some(picked)) => {
                let clone = format!("sim/a/c{}", self.made);
                let task = CloneDataset {
                    origin: named(&self.snapshots[picked])?,
                    name: named(&clone)?,
                    properties: Vec::new(),
                    created: None,
                };
                if self.pool.run_task(task).is_ok() {
                    self.clones.push(clone);
                }
            }
            (6, Some(picked)) => self.roll_back(picked)?,
            _ => self.move_clone()?,
        }
        Ok(())
    }

    fn move_clone(&mut self) -> Result<()> {
        let Some(clone) = self.clones.pop() else {
            return Ok(());
        };
        if self.random.happens(50) {
            let to = format!("sim/b/m{}", self.made);
            let (from, to_name) = (named(&clone)?, named(&to)?);
            let renamed = self.pool.run_task(RenameDataset { from, to: to_name });
            self.clones.push(if renamed.is_ok() { to } else { clone });
            return Ok(());
        }
        let name = named(&clone)?;
        if self.pool.run_task(DestroyDataset { name }).is_err() {
            self.clones.push(clone);
        }
        Ok(())
    }

    /// Rolls a dataset back to its newest snapshot, if that is allowed. The check knows whether it
    /// must be refused.
    fn roll_back(&mut self, picked: usize) -> Result<()> {
        let snapshot = self.snapshots[picked].clone();
        let (name, _) = snapshot.split_once('@').context("a snapshot")?;
        let place = self.members.iter().position(|member| member.name == name);
        let place = place.context("a member's")?;
        let mut member = self.members.swap_remove(place);
        member.fs.dataset()?.end()?;
        let task = RollbackDataset {
            snapshot: named(&snapshot)?,
        };
        let head = machine::dataset(&self.pool, name)?;
        let (quota, then) = (
            number(&head, "refquota")?,
            machine::dataset(&self.pool, &snapshot)?,
        );
        let is_too_large = quota != 0 && then.phys().referenced_bytes > quota;
        let done = self.pool.run_task(task).is_ok();
        ensure!(
            !(done && is_too_large),
            Wrong(format!("{snapshot} came back above refquota={quota}"))
        );
        let made = member.made;
        member = Member::open(&self.pool, name, member.number, member.random.fork())?;
        member.made = made;
        member.find_files()?;
        for (kind, id) in OWNERS {
            // The snapshot may have had more.
            member.fs.set_quota(kind, id, 0, false)?;
        }
        self.members.push(member);
        Ok(())
    }
}

impl Crowd {
    /// Fills the pool, so that only what is reserved and what is rewritten has room.
    fn fill(&mut self) -> Result<()> {
        let place = self
            .members
            .iter()
            .position(|member| member.name == "sim/fill");
        let member = &mut self.members[place.context("it is there")?];
        let operations = [Operation::Create(WRITE_MAX); 16];
        for _ in 0..DISK_SIZE >> 20 {
            member.work(&operations)?;
            if !member.refusals.is_empty() {
                break;
            }
        }
        self.settle()
    }

    /// All write at the same time. Each refusal must have a reason.
    fn round(&mut self) -> Result<()> {
        self.settle()?;
        let is_in_place = self.random.happens(40);
        let mut plans = Vec::new();
        let mut limits = Vec::new();
        for member in &self.members {
            let draw = |random: &mut Random| Operation::draw(random, is_in_place);
            let operations = (0..OPERATIONS).map(|_| draw(&mut self.random));
            plans.push(operations.collect::<Vec<_>>());
            limits.push(levels(&self.pool, &member.name)?);
        }
        let beside = self.random.happens(30);
        rt::scope(|scope| {
            let mut threads = Vec::new();
            for (member, plan) in self.members.iter_mut().zip(&plans) {
                let name = format!("writer{}", member.number);
                threads.push(scope.spawn_named(name, move || member.work(plan)));
            }
            let pool = &self.pool;
            if beside {
                let body = move || (0..6).try_for_each(|_| Ok::<_, anyhow::Error>(pool.sync()?));
                threads.push(scope.spawn_named("syncs".to_owned(), body));
            }
            let ended: Vec<Result<()>> = threads.into_iter().map(join).collect();
            ended.into_iter().collect::<Result<()>>()
        })?;
        let needs: Vec<u64> = plans
            .iter()
            .map(|plan| plan.iter().map(|operation| operation.cost()).sum())
            .collect();
        for (member, levels) in self.members.iter().zip(&limits) {
            self.judge_refusals(member, levels, (&needs, is_in_place))?;
        }
        self.judge_limits()
    }

    /// Whether a writer was refused although there was room for all writes.
    fn judge_refusals(
        &self,
        member: &Member,
        levels: &[Level],
        (needs, is_in_place): (&[u64], bool),
    ) -> Result<()> {
        let has_quotas = OWNERS.iter().any(|(kind, id)| {
            let account = member.fs.account(*kind, Fuid(*id));
            account.is_ok_and(|account| account.quota != 0 || account.objects_quota != 0)
        });
        if member.refusals.is_empty() || member.is_owned && has_quotas {
            return Ok(());
        }
        let snapshots = self.snapshots.iter().map(|name| name.split('@').next());
        let has_snapshots = snapshots
            .flatten()
            .any(|of| levels.iter().any(|level| is_below(of, &level.name)));
        for level in levels {
            let below = self.members.iter().zip(needs).filter(|(other, _)| {
                other.name == member.name || level.is_tree && is_below(&other.name, &level.name)
            });
            let need = match is_in_place && !has_snapshots && !self.is_compressed {
                true => IN_PLACE,
                false => below.map(|(_, need)| need).sum(),
            };
            if level.left() < need {
                return Ok(());
            }
        }
        let told = levels
            .iter()
            .map(|level| format!("{}: {} left", level.name, level.left()));
        bail!(Wrong(format!(
            "{} was refused ({}), and all fits: {}",
            member.name,
            member.refusals.join("; "),
            told.collect::<Vec<_>>().join(", ")
        )))
    }

    /// Whether all limits hold once all is on disk.
    fn judge_limits(&self) -> Result<()> {
        self.settle()?;
        for member in &self.members {
            for level in levels(&self.pool, &member.name)? {
                let is_held = level.used <= level.limit.saturating_add(EXCESS);
                let told = format!("{} uses {} of {}", level.name, level.used, level.limit);
                ensure!(is_held, Wrong(told));
            }
            for (kind, id) in OWNERS {
                let account = member.fs.account(kind, Fuid(id))?;
                let most = account.quota.saturating_add(EXCESS);
                let is_held = account.quota == 0 || account.used <= most;
                let told = format!("{} {id} in {} uses {account:?}", kind as u8, member.name);
                ensure!(is_held, Wrong(told));
            }
        }
        Ok(())
    }

    /// Whether exactly the available space can be written, without other writers.
    fn probe(&mut self) -> Result<()> {
        for index in 0..self.members.len() {
            self.settle()?;
            let name = self.members[index].name.clone();
            let available = machine::dataset(&self.pool, &name)?.available()?;
            let member = &mut self.members[index];
            let options = WriteOptions::default();
            let new = NewFile::new(FileKind::Regular, 0o644);
            let root = member.fs.root();
            let probe = format!("probe{}", member.made);
            member.made += 1;
            let wrote = member
                .fs
                .create(root, probe.as_bytes(), &new)
                .and_then(|file| {
                    let bytes = member.bytes(WRITE_MAX);
                    member.fs.write(file.id(), 0, &bytes, options)
                });
            rt::trace!("{name} has {available}: {wrote:?}");
            let is_right = match &wrote {
                Ok(_) => available > 0,
                Err(PosixError::NoSpace | PosixError::QuotaExceeded) => available < OVERHEAD,
                Err(_) => false,
            };
            let told = format!("{name} has {available} bytes, and {wrote:?}");
            ensure!(is_right, Wrong(told));
            match member.fs.unlink(root, probe.as_bytes()) {
                Ok(_) | Err(PosixError::NotFound { .. }) => {}
                Err(error) => bail!(Wrong(format!("{probe} cannot be removed: {error}"))),
            }
        }
        Ok(())
    }

    fn close(&self) -> Result<()> {
        for member in &self.members {
            member.fs.dataset()?.end()?;
        }
        Ok(())
    }
}

fn join(thread: std::io::Result<rt::ScopedJoinHandle<'_, Result<()>>>) -> Result<()> {
    match thread.context("a thread")?.join() {
        Ok(result) => result,
        Err(_) => bail!("a thread panicked"),
    }
}

fn judge_pool(pool: &Pool, when: &str) -> Result<()> {
    let report = machine::report(pool)?;
    let is_whole = report.complete && report.problems == 0;
    ensure!(is_whole, Wrong(format!("{when}: {report:?}")));
    let problems = cenote_dsl::check(pool.dsl());
    ensure!(problems.is_empty(), Wrong(format!("{when}: {problems:?}")));
    Ok(())
}

/// Lives through the history of `seed` in a world of its own.
///
/// # Errors
/// What went wrong; a panic or a deadlock, too.
pub fn crowd(world: &World, seed: u64) -> Result<()> {
    let lived = std::panic::AssertUnwindSafe(|| world.run(|| crowd_here(seed)));
    std::panic::catch_unwind(lived).unwrap_or_else(|payload| {
        let words = payload.downcast_ref::<String>().cloned();
        let words = words.or_else(|| payload.downcast_ref::<&str>().map(|&words| words.into()));
        bail!("a panic: {}", words.unwrap_or_default())
    })
}

fn crowd_here(seed: u64) -> Result<()> {
    let mut random = Random::new(seed);
    let layout = Layout::draw_sound(&mut random);
    let disks = Arc::new(Disks::new(layout.disks(), DISK_SIZE, random.fork()));
    let mut crowd = Crowd::new(&disks, &layout, random.fork())?;
    let is_full = random.happens(30);
    if is_full {
        crowd.set("sim/b", "refreservation", 6 << 20)?;
        crowd.round()?;
        crowd.fill()?;
    }
    for round in 0..ROUNDS {
        if round + 1 == ROUNDS {
            disks.record();
        }
        for _ in 0..random.below(4) {
            crowd.change()?;
        }
        crowd.round().with_context(|| format!("round {round}"))?;
        if random.happens(30) {
            crowd
                .probe()
                .with_context(|| format!("after round {round}"))?;
        }
    }
    let record = disks.take_record();
    crowd.close()?;
    judge_pool(&crowd.pool, "in the end")?;
    crowd.pool.close()?;
    let (cut, keep) = (random.index(record.len() + 1), random.below(101));
    let after = Arc::new(disks.after(&record, cut, keep, &mut random));
    let pool = machine::open(&after, false)?;
    for name in DATASETS {
        let fs = machine::files(&pool, name, WriteSettings::default())?;
        fs.dataset()?.end()?;
    }
    judge_pool(&pool, "after a cut")?;
    Ok(pool.close()?)
}
