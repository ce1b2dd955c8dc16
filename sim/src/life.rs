//! One seed: a pool is created, written to by several threads, loses power, and is checked.
//!
//! The seed decides everything: the layout, the operations on files, a volume, datasets and
//! devices, the faults of a disk, the order of threads, the latency of devices, the place of the
//! power cut, and what the devices keep. Each cut is followed by several checks. The pool must
//! import. [`verify`](cenote_pool::verify) must find no fault in any block. After the intent log is
//! replayed, in memory or on disk, the contents must be those after some operation: no promised
//! operation may be missing, and none may be half done. Then the work continues, and the power may
//! fail again during the repair of the first cut.
//!
//! After the last cut the disks change. One is missing, and an import may lose only what it
//! reported as lost; or a new disk replaces one before logs are replayed.
//!
//! A pool with redundancy must survive a sick disk: everything above holds. Without redundancy,
//! everything that can be read must be data that was once written ([`Health`]).

use crate::datasets::Gardener;
use crate::disks::{BROKEN, Disks};
use crate::files::{Writer, found, may_be_left};
use crate::flushes::Weather;
use crate::machine::{self, DISK_SIZE, Layout, POOL};
use crate::record::{Bounds, Event, Record};
use crate::restarts;
use crate::sickness::Sickness;
use crate::upkeep::{self, Keeper};
use crate::volumes::{self, VolumeWriter};
use crate::wrong::Wrong;
use anyhow::{Context, Result, bail, ensure};
use cenote_base::rt::{self, Random, World};
use cenote_pool::{FailMode, Pool};
use cenote_posix::FileSystem;
use std::path::Path;
use std::sync::Arc;

/// Disks beside the pool's, which it may get.
const FREE_DISKS: usize = 2;
/// Operations of each writer before the recording begins, so that freed space is used again.
const WARM_UP: usize = 8;
/// Operations of each writer that are recorded.
const OPERATIONS: usize = 24;
/// Operations after a cut.
const OPERATIONS_AFTER: usize = 6;
/// Power cuts of one record.
const CUTS: usize = 3;

/// What a seed went through.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The pool, and what was done to it.
    pub told: String,
    /// Events that were recorded.
    pub events: usize,
    /// Power cuts that were judged.
    pub cuts: usize,
    /// Errors that a pool without redundancy had to report.
    pub noticed: usize,
}

/// What a seed does not decide.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// The disks are left here as the last cut left them.
    pub kept: Option<&'a Path>,
    /// The disks lie about flushes, though nothing makes up for that, so that something must be
    /// lost.
    pub lose_flushes: bool,
    /// Only a long life with restarts.
    pub only_restarts: bool,
    /// Flushes fail, and disks are away for a while; none is sick, and none comes or goes.
    pub has_weather: bool,
}

/// What is wrong with the disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    /// Nothing.
    Sound,
    /// One disk is sick, for which others make up.
    Spared(usize),
    /// One disk is sick, and nothing makes up for it.
    Hopeless(usize),
}

/// What is done while the power is there.
#[derive(Clone, Debug)]
struct Plan {
    layout: Layout,
    writers: usize,
    has_volume: bool,
    has_gardener: bool,
    has_keeper: bool,
    has_weather: bool,
    health: Health,
    sickness: Sickness,
    is_liar: bool,
}

impl Plan {
    fn draw(random: &mut Random, options: &Options<'_>) -> Self {
        let layout = Layout::draw(random);
        let disk = random.index(layout.disks());
        let health = match (random.below(10), layout.vdev_of(disk).spare) {
            (0..7, _) => Health::Sound,
            (_, 0) => Health::Hopeless(disk),
            _ => Health::Spared(disk),
        };
        let health = if options.lose_flushes || options.has_weather {
            Health::Sound
        } else {
            health
        };
        let mut sickness = Sickness::default();
        let mut is_liar = false;
        match random.below(7) {
            0 => is_liar = true,
            1 => sickness.spoiled = 20,
            2 => sickness.elsewhere = 20,
            3 => sickness.lost = 20,
            4 => sickness.failed = 20,
            5 => sickness.stops_after = Some(1 + random.below(1500)),
            _ => sickness.slowness = 200,
        }
        if health == Health::Sound {
            (sickness, is_liar) = (Sickness::default(), false);
        }
        Self {
            layout,
            writers: [1, 1, 2, 2, 3][random.index(5)],
            has_volume: random.happens(30),
            has_gardener: random.happens(40),
            has_keeper: random.happens(30) && !options.has_weather,
            has_weather: options.has_weather,
            health,
            sickness,
            is_liar,
        }
    }

    fn disk(&self) -> Option<usize> {
        match self.health {
            Health::Sound => None,
            Health::Spared(disk) | Health::Hopeless(disk) => Some(disk),
        }
    }

    fn told(&self) -> String {
        let is_there = [
            (self.has_volume, ", a volume"),
            (self.has_gardener, ", datasets"),
            (self.has_keeper, ", devices"),
            (self.has_weather, ", weather"),
        ];
        let more = is_there.iter().filter(|(is_there, _)| *is_there);
        let more: String = more.map(|(_, words)| *words).collect();
        let sick = match self.health {
            Health::Sound => String::new(),
            health if self.is_liar => format!("; {health:?} lies about flushes"),
            health => format!("; {health:?}: {:?}", self.sickness),
        };
        format!(
            "{}; {} writers{more}{sick}",
            self.layout.told(),
            self.writers
        )
    }
}

/// All threads that change the pool. Each has a number in the record.
struct Crew {
    writers: Vec<Writer>,
    volume: Option<VolumeWriter>,
    gardener: Option<Gardener>,
    keeper: Option<Keeper>,
    weather: Option<Weather>,
}

/// Numbers in the record.
const VOLUME: usize = 3;
const GARDENER: usize = 4;
/// The writer after a cut.
const AFTER: usize = 5;
const ALL: usize = 6;

impl Crew {
    fn new(pool: &Pool, fs: &FileSystem, plan: &Plan, random: &mut Random) -> Result<Self> {
        let mut writers = Vec::new();
        for number in 0..plan.writers {
            writers.push(Writer::new(fs, &directory(number), number, random.fork())?);
        }
        let settings = plan.layout.settings;
        let volume = plan
            .has_volume
            .then(|| VolumeWriter::new(pool, VOLUME, random.fork()));
        let gardener = plan
            .has_gardener
            .then(|| Gardener::new(pool, GARDENER, settings, random.fork()));
        let first = plan.layout.disks();
        let keeper = plan.has_keeper.then(|| Keeper {
            random: random.fork(),
            free: (first..first + FREE_DISKS).collect(),
            is_bold: plan.health == Health::Sound,
        });
        if plan.has_weather {
            pool.set_fail_mode(FailMode::Wait);
        }
        Ok(Self {
            writers,
            volume: volume.transpose()?,
            gardener: gardener.transpose()?,
            keeper,
            weather: None,
        })
    }

    /// All do so many operations, each in a thread of its own.
    fn work(
        &mut self,
        disks: &Disks,
        pool: &Pool,
        fs: &FileSystem,
        operations: usize,
    ) -> Result<()> {
        rt::scope(|scope| {
            let mut threads = Vec::new();
            for (number, writer) in self.writers.iter_mut().enumerate() {
                let body = move || repeat(operations, || writer.operate(disks, fs));
                threads.push(scope.spawn_named(format!("writer{number}"), body));
            }
            if let Some(writer) = &mut self.volume {
                let body = move || {
                    let volume = machine::volume(pool, &volumes::name())?;
                    repeat(operations, || writer.operate(disks, &volume))?;
                    Ok(volume.dataset()?.end()?)
                };
                threads.push(scope.spawn_named("volume".to_owned(), body));
            }
            if let Some(gardener) = &mut self.gardener {
                let body = move || repeat(operations / 3, || gardener.operate(disks, pool));
                threads.push(scope.spawn_named("gardener".to_owned(), body));
            }
            if let Some(keeper) = &mut self.keeper {
                let body = move || keeper.work(disks, pool, operations / 4);
                threads.push(scope.spawn_named("keeper".to_owned(), body));
            }
            if let Some(weather) = &mut self.weather {
                let body = move || weather.work(disks, pool);
                threads.push(scope.spawn_named("weather".to_owned(), body));
            }
            // All come to their end before one of them is complained of.
            let ended: Vec<Result<()>> = threads.into_iter().map(join).collect();
            ended.into_iter().collect()
        })
    }

    fn promise(&self, disks: &Disks) {
        self.writers.iter().for_each(|writer| writer.promise(disks));
        self.volume.iter().for_each(|volume| volume.promise(disks));
        let mut gardeners = self.gardener.iter();
        gardeners
            .by_ref()
            .for_each(|gardener| gardener.promise(disks));
    }

    /// Compares a pool with what was done to it.
    fn compare(&self, pool: &Pool, fs: &FileSystem, bounds: &[Bounds]) -> Result<()> {
        for (number, writer) in self.writers.iter().enumerate() {
            compare_files(fs, &directory(number), writer, &bounds[number])?;
        }
        if let Some(volume) = &self.volume {
            volume.compare(pool, &bounds[VOLUME])?;
        }
        if let Some(gardener) = &self.gardener {
            gardener.compare(pool, &bounds[GARDENER])?;
        }
        Ok(())
    }
}

/// Whether a program saw an error of a missing disk: a read failed, or a command was refused.
fn is_of_disk(error: &anyhow::Error) -> bool {
    let text = format!("{error:#}");
    text.contains(BROKEN) && error.downcast_ref::<Wrong>().is_none()
}

fn join(thread: std::io::Result<rt::ScopedJoinHandle<'_, Result<()>>>) -> Result<()> {
    match thread.context("a thread")?.join() {
        Ok(result) => result,
        Err(_) => bail!("a thread panicked"),
    }
}

fn repeat(count: usize, mut operation: impl FnMut() -> Result<()>) -> Result<()> {
    (0..count).try_for_each(|_| operation())
}

fn directory(writer: usize) -> String {
    format!("w{writer}")
}

/// Lives through `seed` in a world of its own, which `world` was made for.
///
/// # Errors
/// What went wrong, with the place of the cut; a panic or a deadlock, too.
pub fn live(world: &World, seed: u64, options: Options<'_>) -> Result<Outcome> {
    let lived = std::panic::AssertUnwindSafe(|| world.run(|| live_here(seed, options)));
    std::panic::catch_unwind(lived).unwrap_or_else(|payload| {
        let words = payload.downcast_ref::<String>().cloned();
        let words = words.or_else(|| payload.downcast_ref::<&str>().map(|&words| words.into()));
        bail!("a panic: {}", words.unwrap_or_default())
    })
}

fn live_here(seed: u64, options: Options<'_>) -> Result<Outcome> {
    let mut random = Random::new(seed);
    if options.only_restarts {
        let cuts = restarts::live(&mut random)?;
        let told = "a long life with restarts".to_owned();
        return Ok(Outcome {
            told,
            cuts,
            ..Outcome::default()
        });
    }
    let plan = Plan::draw(&mut random, &options);
    rt::trace!("{}", plan.told());
    let lived = Life::new(plan.clone(), options, random).and_then(Life::cuts);
    lived.with_context(|| plan.told())
}

/// A pool's life up to the cuts.
struct Life<'a> {
    plan: Plan,
    options: Options<'a>,
    random: Random,
    disks: Arc<Disks>,
    crew: Crew,
    record: Record,
    noticed: usize,
}

impl<'a> Life<'a> {
    fn new(plan: Plan, options: Options<'a>, mut random: Random) -> Result<Self> {
        let count = plan.layout.disks() + FREE_DISKS;
        let is_liar = |disk| options.lose_flushes || plan.is_liar && plan.disk() == Some(disk);
        let disks = Disks::new(count, DISK_SIZE, random.fork());
        let disks = Arc::new(disks.lying((0..count).map(is_liar).collect()));
        let pool = machine::create(&disks, &plan.layout)?;
        let fs = machine::files(&pool, POOL, plan.layout.settings)?;
        let mut crew = Crew::new(&pool, &fs, &plan, &mut random)?;
        crew.work(&disks, &pool, &fs, WARM_UP)?;
        pool.sync()?;
        disks.record();
        crew.promise(&disks);
        if let Some(disk) = plan.disk() {
            disks.sicken(disk, plan.sickness);
        }
        if plan.has_weather {
            disks.may_have_trouble();
            crew.weather = Some(Weather::new(plan.layout.clone(), random.fork()));
        }
        let worked = crew.work(&disks, &pool, &fs, OPERATIONS);
        let record = disks.take_record();
        let mut life = Self {
            plan,
            options,
            random,
            disks,
            crew,
            record,
            noticed: 0,
        };
        life.notice(worked)?;
        drop(fs);
        // What is left to be written is not recorded.
        let closed = pool.close();
        life.notice(closed.map_err(Into::into))?;
        Ok(life)
    }

    /// Passes an error on, unless this pool may have some.
    fn notice<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match (result, self.plan.health) {
            (Ok(value), _) => Ok(Some(value)),
            (Err(error), _) if self.plan.has_weather && is_of_disk(&error) => {
                rt::trace!("noticed: {error:#}");
                self.noticed += 1;
                Ok(None)
            }
            (Err(error), Health::Hopeless(_)) if error.downcast_ref::<Wrong>().is_none() => {
                rt::trace!("noticed: {error:#}");
                self.noticed += 1;
                Ok(None)
            }
            (Err(error), _) => Err(error),
        }
    }

    fn cuts(mut self) -> Result<Outcome> {
        let first = self.first_event();
        for number in 0..CUTS {
            let cut = first + self.random.index(self.record.len() - first + 1);
            let keep = [0, 30, 70, 100][self.random.index(4)];
            let what = format!(
                "cut {number} at {cut} of {} events, {keep} % kept",
                self.record.len()
            );
            rt::trace!("{what}");
            let judged = self.cut(number, cut, keep);
            self.notice(judged.context(what))?;
        }
        // Devices that rested before the cut may be all that is left of a mirror without a disk.
        let has_rested = self.plan.has_keeper || self.plan.has_weather;
        if self.plan.health == Health::Sound && !has_rested {
            self.cut_with_changed_disks(first)?;
        }
        if self.plan.health == Health::Sound && self.random.happens(25) {
            restarts::live(&mut self.random)?;
        }
        Ok(Outcome {
            told: self.plan.told(),
            events: self.record.len(),
            cuts: CUTS,
            noticed: self.noticed,
        })
    }

    /// The promises of the beginning come first.
    fn first_event(&self) -> usize {
        let is_promise = |event: &Event| matches!(event, Event::Promised { .. });
        let mut events = self.record.iter();
        let first = events.position(|event| !is_promise(event));
        first.unwrap_or(self.record.len())
    }

    /// Bounds after a cut.
    fn bounds(&self, cut: usize) -> Vec<Bounds> {
        let mut bounds = vec![Bounds::default(); ALL];
        Bounds::extend(&mut bounds, &self.record, cut);
        match self.plan.health {
            Health::Hopeless(_) => bounds.iter().map(Bounds::without_promises).collect(),
            _ => bounds,
        }
    }

    fn cut(&mut self, number: usize, cut: usize, keep: u64) -> Result<()> {
        let after = self.disks.after(&self.record, cut, keep, &mut self.random);
        let after = Arc::new(after);
        if let Some(directory) = self.options.kept.filter(|_| number + 1 == CUTS) {
            after.save(directory)?;
        }
        let bounds = self.bounds(cut);
        let is_read_only = self.random.happens(50);
        if is_read_only {
            let pool = machine::open(&after, true)?;
            return self.judge(&pool, &bounds);
        }
        after.record();
        self.go_on(&after, &bounds)?;
        let record = after.take_record();
        if record.is_empty() || self.random.happens(50) {
            return Ok(());
        }
        // The power fails again, perhaps during the repair of the first cut.
        let cut = self.random.index(record.len() + 1);
        let keep = [0, 30, 70, 100][self.random.index(4)];
        rt::trace!("second cut at {cut} of {}, {keep} % kept", record.len());
        let last = Arc::new(after.after(&record, cut, keep, &mut self.random));
        let judged = machine::open(&last, true).and_then(|pool| self.judge(&pool, &bounds));
        judged.with_context(|| format!("second cut at {cut} of {}, {keep} % kept", record.len()))
    }

    /// A cut after which the disks are not the same any more. It comes last, so that it does not
    /// change what came before.
    fn cut_with_changed_disks(&mut self, first: usize) -> Result<()> {
        let cut = first + self.random.index(self.record.len() - first + 1);
        let keep = [0, 30, 70, 100][self.random.index(4)];
        let after = self.disks.after(&self.record, cut, keep, &mut self.random);
        let (after, bounds) = (Arc::new(after), self.bounds(cut));
        let disks = self.plan.layout.disks();
        let judged = match self.random.below(3) {
            0 => {
                let new = disks + self.random.index(FREE_DISKS);
                self.exchanged(&after, new, &bounds)
                    .with_context(|| format!("with disk {new} in the place of another"))
            }
            _ => {
                let logs = (0..disks).filter(|disk| self.plan.layout.is_log(*disk));
                let logs: Vec<usize> = logs.collect();
                let disk = match logs.is_empty() {
                    true => self.random.index(disks),
                    false => logs[self.random.index(logs.len())],
                };
                self.without(&after, disk, &bounds)
                    .with_context(|| format!("without disk {disk}"))
            }
        };
        judged.with_context(|| format!("last cut at {cut}, {keep} % kept"))
    }

    /// Another disk takes the place of one before the logs are replayed.
    fn exchanged(&mut self, disks: &Arc<Disks>, new: usize, bounds: &[Bounds]) -> Result<()> {
        let pool = machine::open(disks, false)?;
        let path = &disks.paths()[new];
        let tree = pool.vdev_tree();
        if tree.leaves().all(|leaf| leaf.path.as_ref() != Some(path)) {
            upkeep::exchange(disks, &pool, new, &mut self.random)?;
        }
        self.judge(&pool, bounds)?;
        Ok(pool.close()?)
    }

    /// Imports what is left without one disk. What was promised is there, unless the import said
    /// that it is lost. And what is lost stays lost when the disk is back.
    fn without(&mut self, disks: &Arc<Disks>, disk: usize, bounds: &[Bounds]) -> Result<()> {
        let Some(pool) = machine::open_without(disks, disk, self.plan.layout.is_log(disk))? else {
            return Ok(());
        };
        rt::trace!("without disk {disk}: {:?} are lost", pool.discarded_logs());
        let lost: Vec<Bounds> = bounds.iter().map(Bounds::without_promises).collect();
        let bounds = match pool.discarded_logs().is_empty() {
            true => bounds,
            false => &lost,
        };
        if self.random.happens(50) {
            self.judge(&pool, bounds)?;
        }
        pool.close()?;
        drop(pool);
        let pool = machine::open(disks, false).context("then with it")?;
        let is_silent = pool.discarded_logs().is_empty();
        ensure!(is_silent, "then with it: a log is lost");
        self.judge(&pool, bounds).context("then with it")?;
        Ok(pool.close()?)
    }

    /// Imports what is left for good, judges it, and works on.
    fn go_on(&mut self, disks: &Arc<Disks>, bounds: &[Bounds]) -> Result<()> {
        let pool = machine::open(disks, false)?;
        self.judge(&pool, bounds)?;
        let fs = machine::files(&pool, POOL, self.plan.layout.settings)?;
        let mut writer = Writer::new(&fs, "after", AFTER, self.random.fork())?;
        repeat(OPERATIONS_AFTER, || writer.operate(disks, &fs))?;
        machine::fsync_all(&fs)?;
        let found = found(&fs, "after")?;
        let is_same = found.is_same(writer.last());
        ensure!(
            is_same,
            Wrong("after the import a file was lost".to_owned())
        );
        if matches!(self.plan.health, Health::Spared(_)) && self.random.happens(50) {
            upkeep::scrub(&pool)?;
            let report = machine::report(&pool)?;
            let is_whole = report.complete && report.problems == 0 && report.bad_copies == 0;
            ensure!(is_whole, "a scrub left faults: {report:?}");
        }
        Ok(pool.close()?)
    }

    fn judge(&mut self, pool: &Pool, bounds: &[Bounds]) -> Result<()> {
        let report = machine::report(pool)?;
        // A device that lacks the last group is brought up to date by a resilver.
        let is_whole = report.complete && report.problems == 0;
        let whole = match is_whole {
            true => Ok(()),
            false => Err(anyhow::anyhow!("verify found faults: {report:?}")),
        };
        self.notice(whole)?;
        let fs = machine::files(pool, POOL, self.plan.layout.settings)?;
        let compared = self.crew.compare(pool, &fs, bounds);
        if let Ok(open) = fs.dataset() {
            open.end()?;
        }
        compared
    }
}

fn compare_files(fs: &FileSystem, name: &str, writer: &Writer, bounds: &Bounds) -> Result<()> {
    let found = found(fs, name)?;
    if may_be_left(&writer.states, bounds, &found) {
        return Ok(());
    }
    let most = bounds.most.min(writer.states.len() - 1);
    let least = bounds.least.min(most);
    bail!(Wrong(format!(
        "{name} had begun {most} operations and was promised {bounds:?}\n\
         found:    {}\n\
         promised: {}\n\
         then:     {}",
        found.summary(),
        writer.states[least].summary(),
        writer.told(least..most),
    )))
}
