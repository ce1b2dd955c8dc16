//! Disks whose names lead to others while the pool runs.
//!
//! A file is exchanged for a copy of itself (moved to another place and back, restored from a
//! backup), for an older copy, for a copy that was made while the pool wrote to it, for an empty
//! file, for a disk of another pool. An open handle still takes writes, and has no name any more.
//! So in this world disks are exchanged at any moment: while they are in use, while they are
//! offline, before and after an import. Then comes what an administrator does: `online`, `reopen`,
//! `clear`, a replacement, or nothing.
//!
//! What is judged is what the pool says. A disk that it calls healthy has everything, so the pool
//! is opened by names with as few other disks as its redundancy allows, and must be whole.

use crate::disks::Disks;
use crate::files::{Writer, found};
use crate::image::Image;
use crate::machine::{self, DISK_SIZE, Layout, POOL, actor};
use crate::upkeep::{bring_back, wait_for_scan};
use anyhow::{Context, Result, bail, ensure};
use cenote_base::Guid;
use cenote_base::rt::{self, Random, World};
use cenote_pool::{Attachment, Companion, Offline, Pool};
use cenote_posix::FileSystem;
use cenote_vdev::{VdevState, VdevStatus};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Disks that the pool does not have, and may get.
const FREE_DISKS: usize = 2;
/// Exchanges of one life.
const ROUNDS: usize = 3;
/// Operations of the writer between two events.
const OPERATIONS: usize = 6;
/// The longest pause after an exchange: the pool looks at names once a second.
const PAUSE_MS_MAX: u64 = 2500;
/// The longest that a device takes to have everything again.
const SETTLED_MAX: Duration = Duration::from_secs(900);
/// The pool has looked at all names by then.
const NOTICED_MAX: Duration = Duration::from_millis(1500);
/// Pieces of a copy that is made of a disk in use.
const PIECES: usize = 4;

/// What a disk is exchanged for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Other {
    Copy,
    /// A copy from before the last round.
    Older,
    /// A copy that is not of one moment.
    Torn,
    Empty,
    /// Data of another pool, or of another disk of this one.
    Strangers,
}

/// What is done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remedy {
    Online,
    /// `zpool reopen`, which comes to the same for what is not offline.
    Reopen,
    Clear,
    /// Another disk takes its place.
    Replace,
    /// The disk that is there by now, as a new one.
    ReplaceWithItself,
}

/// One pool, with what is done to it.
struct Place {
    disks: Arc<Disks>,
    layout: Layout,
    random: Random,
    pool: Pool,
    fs: Arc<FileSystem>,
    writer: Writer,
    older: BTreeMap<usize, Image>,
    sides_at_first: usize,
}

/// Lives through `seed` in a world of its own, which `world` was made for. What happened.
///
/// # Errors
/// What went wrong; a panic or a deadlock, too.
pub fn exchange_names(world: &World, seed: u64) -> Result<String> {
    let lived = std::panic::AssertUnwindSafe(|| world.run(|| live(seed)));
    std::panic::catch_unwind(lived).unwrap_or_else(|payload| {
        let words = payload.downcast_ref::<String>().cloned();
        let words = words.or_else(|| payload.downcast_ref::<&str>().map(|&words| words.into()));
        bail!("a panic: {}", words.unwrap_or_default())
    })
}

fn live(seed: u64) -> Result<String> {
    let mut random = Random::new(seed);
    let layout = loop {
        let layout = Layout::draw(&mut random);
        // A draid's disk is brought up to date by its neighbours, as a raidz's is.
        if layout.vdevs[0].spare > 0 {
            break layout;
        }
    };
    let told = layout.told();
    rt::trace!("{told}");
    let mut place = Place::new(layout, random).with_context(|| told.clone())?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let round = place.round();
        rounds.push(round.with_context(|| format!("{told}; {rounds:?}"))?);
    }
    let judged = place.judge();
    judged.with_context(|| format!("{told}; {rounds:?}"))?;
    Ok(format!("{told}; {}", rounds.join("; ")))
}

/// The state of a leaf.
fn state_of(pool: &Pool, leaf: Guid) -> VdevState {
    let mut stack: Vec<VdevStatus> = vec![pool.vdevs().status()];
    while let Some(mut vdev) = stack.pop() {
        if vdev.guid == leaf {
            return vdev.state;
        }
        stack.append(&mut vdev.children);
    }
    VdevState::CannotOpen
}

/// Opens the first file system.
fn files(pool: &Pool, layout: &Layout) -> Result<Arc<FileSystem>> {
    machine::files(pool, POOL, layout.settings)
}

impl Place {
    fn new(layout: Layout, mut random: Random) -> Result<Self> {
        let disks = Disks::new(layout.disks() + FREE_DISKS, DISK_SIZE, random.fork());
        let disks = Arc::new(disks);
        let pool = machine::create(&disks, &layout)?;
        let fs = files(&pool, &layout)?;
        let writer = Writer::new(&fs, "w", 0, random.fork())?;
        let mut place = Self {
            disks,
            layout,
            random,
            pool,
            fs,
            writer,
            older: BTreeMap::new(),
            sides_at_first: 0,
        };
        place.sides_at_first = place.sides().len();
        place.work(2 * OPERATIONS)?;
        Ok(place)
    }

    fn work(&mut self, operations: usize) -> Result<()> {
        (0..operations).try_for_each(|_| self.writer.operate(&self.disks, &self.fs))
    }

    /// The names of the first vdev's disks, with their leaves. A replacement gets the old name, so
    /// the names come from the tree.
    fn sides(&self) -> Vec<(usize, Guid)> {
        let tree = self.pool.vdev_tree();
        let paths = self.disks.paths();
        let leaves = tree.children.iter().take(1).flat_map(|top| top.leaves());
        let sides = leaves.filter_map(|leaf| {
            let name = paths
                .iter()
                .position(|path| leaf.path.as_ref() == Some(path));
            Some((name?, leaf.guid))
        });
        sides.collect()
    }

    /// Closes the pool and opens it again.
    fn import_again(&mut self) -> Result<()> {
        if let Ok(open) = self.fs.dataset() {
            open.end()?;
        }
        match self.random.happens(50) {
            true => self.pool.export()?,
            false => self.pool.close()?,
        }
        self.pool = machine::open(&self.disks, false)?;
        self.fs = files(&self.pool, &self.layout)?;
        Ok(())
    }

    fn round(&mut self) -> Result<String> {
        let sides = self.sides();
        let (name, leaf) = sides[self.random.index(sides.len())];
        for (name, _) in &sides {
            self.older.insert(*name, self.disks.contents(*name));
        }
        let other = [
            Other::Copy,
            Other::Copy,
            Other::Older,
            Other::Torn,
            Other::Empty,
            Other::Strangers,
        ][self.random.index(6)];
        let remedy = [
            Remedy::Online,
            Remedy::Online,
            Remedy::Reopen,
            Remedy::Clear,
            Remedy::Replace,
            Remedy::ReplaceWithItself,
        ][self.random.index(6)];
        let is_offline = self.random.happens(50);
        let is_imported = self.random.happens(40);
        let told = format!(
            "disk {name}, offline {is_offline}, imported {is_imported}, {other:?}, {remedy:?}"
        );
        rt::trace!("{told}");
        self.work(OPERATIONS)?;
        if is_offline {
            let how = Offline::default();
            let done = self.pool.offline(leaf, how, (&actor(), ""));
            done.context("offline")?;
        }
        if is_imported {
            self.import_again().context("imported again")?;
        }
        self.work(OPERATIONS)?;
        let was = self.disks.contents(name);
        self.exchange(name, other)?;
        self.work(OPERATIONS)?;
        rt::sleep(Duration::from_millis(self.random.below(PAUSE_MS_MAX)));
        self.work(OPERATIONS)?;
        let done = self.remedy(leaf, name, remedy);
        rt::trace!("{remedy:?}: {done:?}, {:?}", state_of(&self.pool, leaf));
        self.work(OPERATIONS)?;
        self.settle(leaf, name, was)?;
        Ok(told)
    }

    fn exchange(&mut self, name: usize, other: Other) -> Result<()> {
        let bytes = match other {
            Other::Copy => self.disks.contents(name),
            Other::Older => self.older[&name].clone(),
            Other::Torn => self.torn(name)?,
            Other::Empty => Image::zeros(DISK_SIZE),
            Other::Strangers => {
                let count = self.disks.paths().len();
                self.disks.contents((name + 1) % count)
            }
        };
        self.disks.exchange(name, bytes);
        Ok(())
    }

    /// A copy from the beginning to the end, while the pool is written to.
    fn torn(&mut self, name: usize) -> Result<Image> {
        let mut copy = Image::zeros(DISK_SIZE);
        let piece = DISK_SIZE / PIECES;
        for number in 0..PIECES {
            let mut bytes = vec![0; piece];
            self.disks.contents(name).read(number * piece, &mut bytes);
            copy.write(number * piece, &bytes);
            self.work(OPERATIONS / 2)?;
            if self.random.happens(50) {
                machine::sync_group(&self.fs)?;
            }
        }
        Ok(copy)
    }

    /// What is done about it may be refused.
    fn remedy(&mut self, leaf: Guid, name: usize, remedy: Remedy) -> Result<()> {
        match remedy {
            Remedy::Online => bring_back(&self.pool, leaf),
            Remedy::Reopen if self.pool.is_out_of_use(leaf) => Ok(()),
            Remedy::Reopen => bring_back(&self.pool, leaf),
            Remedy::Clear => {
                self.pool.clear(&[])?;
                let shape = self.pool.vdevs();
                let is_open = shape.is_open(leaf) || self.pool.is_out_of_use(leaf);
                let lost = if is_open { vec![] } else { vec![leaf] };
                let looked = self.pool.look_for(lost)?;
                let by = actor();
                Ok(self.pool.clear_faults(&[], looked.devices, (&by, ""))?)
            }
            Remedy::Replace => {
                let paths = self.disks.paths();
                let tree = self.pool.vdev_tree();
                let is_free = |name: &usize| {
                    let path = Some(&paths[*name]);
                    tree.leaves().all(|leaf| leaf.path.as_ref() != path)
                };
                let free = (0..paths.len()).find(is_free);
                self.attach(leaf, free.context("no disk is free")?)
            }
            Remedy::ReplaceWithItself if self.pool.vdevs().is_open(leaf) => Ok(()),
            Remedy::ReplaceWithItself => self.attach(leaf, name),
        }
    }

    fn attach(&self, old: Guid, new: usize) -> Result<()> {
        let request = Attachment {
            old,
            new: self.disks.leaf(new),
            companion: Companion::Replacement,
            sequential: false,
            ashift: None,
        };
        Ok(self.pool.attach(&request, (&actor(), ""))?)
    }

    /// Waits until the pool calls all disks healthy. If it does not use what is there, first the
    /// right disk is put back.
    fn settle(&mut self, leaf: Guid, name: usize, was: Image) -> Result<()> {
        let mut was = Some(was);
        let begun = rt::Instant::now();
        // An idle pool notices what it did not stumble over.
        rt::sleep(NOTICED_MAX);
        loop {
            rt::sleep(Duration::from_millis(500));
            wait_for_scan(&self.pool)?;
            let sides = self.sides();
            let states = sides.iter().map(|(_, side)| state_of(&self.pool, *side));
            let is_well = states.into_iter().all(|state| state == VdevState::Healthy);
            let is_full = sides.len() == self.sides_at_first;
            let is_replaced = sides.iter().all(|(_, side)| *side != leaf);
            let needed = self.pool.vdevs().is_resilver_needed();
            // There is no daemon here that begins one.
            if needed.is_some() {
                let _ = self.pool.look_for_resilver()?;
            } else if is_well && is_full && self.is_whole_tree() {
                return Ok(());
            } else if !is_replaced && state_of(&self.pool, leaf) != VdevState::Healthy {
                if let Some(bytes) = was.take_if(|_| begun.elapsed() > Duration::from_secs(3)) {
                    rt::trace!("the right disk {name} is put back");
                    self.disks.exchange(name, bytes);
                }
                let done = bring_back(&self.pool, leaf);
                rt::trace!("online: {done:?}");
            }
            if begun.elapsed() > SETTLED_MAX {
                let status = self.pool.vdevs().status();
                bail!("the pool does not become well: {needed:?} {status:?}");
            }
        }
    }

    /// Whether nothing is being replaced.
    fn is_whole_tree(&self) -> bool {
        let tree = self.pool.vdev_tree();
        tree.leaves().count() == self.layout.disks()
    }

    /// Opens the pool by names, with as few disks as it takes.
    fn judge(mut self) -> Result<()> {
        self.work(OPERATIONS)?;
        machine::sync_group(&self.fs)?;
        let sides = self.sides();
        let well = sides
            .iter()
            .filter(|(_, leaf)| state_of(&self.pool, *leaf) == VdevState::Healthy);
        ensure!(well.count() == sides.len(), "a disk is not healthy");
        let first = self.random.index(sides.len());
        let away = (0..self.layout.vdevs[0].spare).map(|other| (first + other) % sides.len());
        let away: Vec<usize> = away.map(|side| sides[side].0).collect();
        if let Ok(open) = self.fs.dataset() {
            open.end()?;
        }
        self.pool.export()?;
        let pool = machine::open_without_all(&self.disks, &away);
        let pool = pool.with_context(|| format!("without disks {away:?}"))?;
        let report = machine::report(&pool)?;
        let is_whole = report.complete && report.problems == 0;
        ensure!(is_whole, "without disks {away:?}: {report:?}");
        let left = found(&*files(&pool, &self.layout)?, "w")?;
        ensure!(
            left.is_same(self.writer.last()),
            "without disks {away:?} there is another state"
        );
        Ok(())
    }
}
