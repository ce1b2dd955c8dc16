//! Long runs with restarts, after which a disk may be replaced by an older or torn copy.
//!
//! A pool with log, spare and cache devices lives through more groups than a ring of uberblocks
//! has, and is restarted several times: after a power cut, an orderly end, an export. Meanwhile one
//! disk may be replaced: by an older copy of itself, or by a *torn* one, with parts of now and
//! parts of before. Then there are two correct outcomes. Either the import succeeds with everything
//! that was promised, and after the resilver the disk has all of it: this is checked by reading it
//! alone, as far as redundancy allows. Or the import is refused with an error; then it must succeed
//! with the right disk. If no disk was replaced, only the first outcome is correct.
//!
//! A copy that is older than everything that the other disks' labels list may have been written to
//! elsewhere, since nothing proves the contrary. With redundancy the pool is imported without it,
//! reports that, and writes nothing to it until it is added in its own place as a new disk.
//!
//! Undetectable cases are not drawn: a disk without redundancy that is one group old, or some
//! groups old by half of its labels, since power cuts may leave that; and one with all labels of
//! now and the rest of before.

use crate::disks::Disks;
use crate::files::contents;
use crate::image::Image;
use crate::machine::{self, DISK_SIZE, Layout, POOL, VdevPlan};
use crate::upkeep::{bring_what_is_missed, replace};
use crate::wrong::Wrong;
use anyhow::{Context, Result, bail, ensure};
use cenote_base::Txg;
use cenote_base::rt::{self, Random};
use cenote_dsl::directory_keys;
use cenote_pool::{ImportError, Outsider, Pool, Why};
use cenote_posix::write::{NewFile, WriteOptions};
use cenote_posix::{FileKind, FileSystem};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Starts of a pool in one life.
const STARTS: u64 = 4;
/// Files that are written and promised between two starts.
const FILES: u64 = 5;
/// The longest file, in bytes.
const FILE_MAX: u64 = 40_000;
/// Bytes at either end of a disk that are labels.
const LABELS: usize = 512 << 10;
/// More groups than a ring of uberblocks has places, whatever the size of its slots.
const GROUPS_LONG: u64 = 140;
/// Places of a ring of uberblocks on these disks, whose sectors are small.
const RING: u64 = 128;
/// Copies of disks that are kept, and groups in between.
const COPIES_MAX: usize = 6;

/// What a disk is exchanged for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exchange {
    Older,
    /// Of now are the labels.
    Middle,
    /// Of now is the first half.
    Tail,
    /// Of now is the second half.
    Head,
    /// Of now are labels 0 and 2.
    OddLabels,
}

/// All disks at a moment.
struct Copy {
    images: Vec<Image>,
    /// Groups of the pool until then.
    group: u64,
    /// The last of them, by its own number.
    txg: Txg,
}

struct Life<'a> {
    random: &'a mut Random,
    layout: Layout,
    /// Spares and cache devices.
    extra: [usize; 2],
    disks: Arc<Disks>,
    promised: BTreeMap<String, Vec<u8>>,
    copies: Vec<Copy>,
    group: u64,
    number: u64,
}

/// Lives through one life; how often the pool was started.
///
/// # Errors
/// If something promised is lost, or the pool does not come back and nothing is missing.
pub(crate) fn live(random: &mut Random) -> Result<usize> {
    let layout = Layout::with_roles(random);
    let extra = [random.index(2), random.index(2)];
    let count = layout.disks() + extra[0] + extra[1];
    let disks = Arc::new(Disks::new(count, DISK_SIZE, random.fork()));
    let told = format!("restarts: {}; spares and caches {extra:?}", layout.told());
    rt::trace!("{told}");
    let pool = machine::create_with(&disks, &layout, extra)?;
    let mut life = Life {
        random,
        layout,
        extra,
        disks,
        promised: BTreeMap::new(),
        copies: Vec::new(),
        group: 0,
        number: 0,
    };
    let lived = life.starts(pool);
    lived.with_context(|| told)
}

impl Life<'_> {
    fn starts(&mut self, mut pool: Pool) -> Result<usize> {
        for start in 0..STARTS {
            let how = self
                .work_and_stop(pool)
                .with_context(|| format!("start {start}"))?;
            let exchange = self.draw_exchange();
            let what = format!("start {start} after {how}, exchange {exchange:?}");
            rt::trace!("{what}");
            pool = self.start(exchange).context(what)?;
        }
        pool.close()?;
        Ok(usize::try_from(STARTS).unwrap_or(0))
    }

    /// Writes, through few or many groups, and ends.
    fn work_and_stop(&mut self, pool: Pool) -> Result<&'static str> {
        let fs = machine::files(&pool, POOL, self.layout.settings)?;
        let groups = match self.random.happens(30) {
            true => GROUPS_LONG,
            false => 4 + self.random.below(20),
        };
        let ticker = self.file(&fs, "ticker")?;
        for group in 0..groups {
            fs.write(ticker, 0, &group.to_le_bytes(), WriteOptions::default())?;
            machine::sync_group(&fs)?;
            self.group += 1;
            if self.random.below(groups) < FILES {
                self.write_file(&fs)?;
            }
            if self.random.below(groups) < 2 {
                let images = self.disks.images();
                let group = self.group;
                let txg = pool.synced_txg();
                self.copies.push(Copy { images, group, txg });
                if self.copies.len() > COPIES_MAX {
                    self.copies.remove(0);
                }
            }
        }
        self.disks.record();
        self.write_file(&fs)?;
        let record = self.disks.take_record();
        let keep = [0, 30, 70, 100][self.random.index(4)];
        let cut = self.disks.after(&record, record.len(), keep, self.random);
        if let Ok(open) = fs.dataset() {
            open.end()?;
        }
        drop(fs);
        Ok(match self.random.below(4) {
            0 => {
                pool.export()?;
                "an export"
            }
            1 => {
                pool.close()?;
                "an orderly end"
            }
            _ => {
                pool.close()?;
                self.disks = Arc::new(cut);
                "a power cut"
            }
        })
    }

    fn file(&self, fs: &FileSystem, name: &str) -> Result<cenote_base::ObjectId> {
        let root = fs.znode(fs.root())?;
        if let Some(found) = fs.lookup(&root, name.as_bytes())? {
            return Ok(found.object);
        }
        let new = NewFile::new(FileKind::Regular, 0o644);
        Ok(fs.create(fs.root(), name.as_bytes(), &new)?.id())
    }

    /// Writes a file that `fsync` promises.
    fn write_file(&mut self, fs: &FileSystem) -> Result<()> {
        let name = format!("file{}", self.number);
        self.number += 1;
        let length = usize::try_from(1 + self.random.below(FILE_MAX))?;
        let salt = self.random.word();
        let bytes: Vec<u8> = (0..length as u64)
            .map(|at| (salt.wrapping_mul(at | 1) >> 32) as u8)
            .collect();
        let object = self.file(fs, &name)?;
        fs.write(object, 0, &bytes, WriteOptions::default())?;
        machine::fsync(fs, object)?;
        self.promised.insert(name, bytes);
        Ok(())
    }

    fn draw_exchange(&mut self) -> Option<(usize, Exchange)> {
        if self.copies.is_empty() || self.random.happens(40) {
            return None;
        }
        let disks = self.layout.disks();
        let disk = self.random.index(disks);
        let kinds = [
            Exchange::Older,
            Exchange::Tail,
            Exchange::Head,
            Exchange::OddLabels,
            Exchange::Middle,
        ];
        let count = match self.layout.vdev_of(disk).spare {
            0 => kinds.len() - 1,
            _ => kinds.len(),
        };
        let kind = kinds[self.random.index(count)];
        // An older copy of all that there is is a pool of before.
        (disks > 1 || kind != Exchange::Older).then_some((disk, kind))
    }

    /// Starts the pool, perhaps with another disk in the place of one, and judges it.
    fn start(&mut self, exchange: Option<(usize, Exchange)>) -> Result<Pool> {
        let Some((disk, kind)) = exchange else {
            let pool = machine::open(&self.disks, false).context("nothing is missing")?;
            return self.judge(pool);
        };
        let before = &self.copies[self.random.index(self.copies.len())];
        let has_spare = self.layout.vdev_of(disk).spare > 0;
        let is_log = self.layout.is_log(disk);
        let age = self.group - before.group;
        let least = match kind {
            _ if has_spare || is_log => 1,
            // Labels of now are also on a disk that lost its power some times in a row.
            Exchange::OddLabels => 6,
            _ => 2,
        };
        if age < least {
            let pool = machine::open(&self.disks, false).context("nothing is missing")?;
            return self.judge(pool);
        }
        let images = self.disks.images();
        let mut changed = images;
        changed[disk] = mixed(&changed[disk], &before.images[disk], kind);
        let older = (kind == Exchange::Older).then_some(before.txg);
        let disks = Arc::new(Disks::of(changed, self.random.fork()));
        match machine::open(&disks, false) {
            Ok(pool) => {
                self.disks = disks;
                let pool = self.judge_exchanged(pool, disk, older)?;
                // The copies are not of this disk any more.
                self.copies.clear();
                Ok(pool)
            }
            Err(error) => {
                rt::trace!("refused: {error:#}");
                let cause = error.downcast_ref::<ImportError>();
                let in_words = matches!(
                    cause,
                    Some(ImportError::MissingLogs { .. } | ImportError::Parted { .. })
                );
                ensure!(!has_spare, "there is redundancy: {error:#}");
                ensure!(in_words || !is_log, "not in words: {error:#}");
                let pool = machine::open(&self.disks, false).context("with the right disk")?;
                self.judge(pool)
            }
        }
    }

    /// Judges a pool in which a disk is not what it was: wholly a copy, if there is the last group
    /// that this has.
    fn judge_exchanged(&mut self, pool: Pool, disk: usize, older: Option<Txg>) -> Result<Pool> {
        let plan = *self.layout.vdev_of(disk);
        if plan.spare == 0 {
            return self.judge(pool);
        }
        let path = &self.disks.paths()[disk];
        let mut outsiders = pool.outsiders().into_iter();
        let pool = match outsiders.find(|outsider| outsider.path == *path) {
            Some(outsider) => self.judge_left_out(pool, disk, older, &outsider)?,
            None => pool,
        };
        bring_what_is_missed(&pool)?;
        let pool = self.judge(pool)?;
        pool.close()?;
        drop(pool);
        let first = (0..disk)
            .rev()
            .take_while(|other| {
                std::ptr::eq(self.layout.vdev_of(*other), self.layout.vdev_of(disk))
            })
            .last();
        let first = first.unwrap_or(disk);
        let others = (first..first + plan.disks).filter(|other| *other != disk);
        let mut images = self.disks.images();
        for other in others.take(plan.spare) {
            images[other] = Image::zeros(DISK_SIZE);
        }
        let alone = Arc::new(Disks::of(images, self.random.fork()));
        let rest = machine::open(&alone, true).context("with the exchanged disk alone")?;
        self.compare(&rest)
            .context("with the exchanged disk alone")?;
        drop(rest);
        machine::open(&self.disks, false)
    }

    /// Judges a pool that does not use an exchanged disk, and gives it that disk as a new one.
    fn judge_left_out(
        &self,
        pool: Pool,
        disk: usize,
        older: Option<Txg>,
        outsider: &Outsider,
    ) -> Result<Pool> {
        rt::trace!("left out: {outsider:?}");
        let opened = pool.opened_uberblock().txg;
        let is_too_old = older.is_some_and(|last| last.0 + RING <= opened.0);
        ensure!(
            is_too_old && outsider.why == Why::Unproven,
            "of group {older:?}, with the pool at {opened}: {outsider:?}"
        );
        let was = self.disks.images().swap_remove(disk);
        let pool = self.judge(pool).context("without the older copy")?;
        pool.sync()?;
        ensure!(!pool.vdevs().is_open(outsider.leaf), "it is used, too");
        ensure!(
            self.disks.images()[disk] == was,
            Wrong("data that may be needed was overwritten".to_owned())
        );
        replace(&self.disks, &pool, outsider.leaf, disk)?;
        Ok(pool)
    }

    /// Everything that was promised is there, and so are spares and cache devices.
    fn judge(&self, pool: Pool) -> Result<Pool> {
        self.compare(&pool)?;
        let found = pool.found_devices();
        let lists = [directory_keys::SPARES, directory_keys::CACHE_DEVICES];
        for (key, count) in lists.into_iter().zip(self.extra) {
            let listed = pool.dsl().auxiliary_vdevs(key)?;
            let is_there = listed.iter().all(|config| found.contains_key(&config.guid));
            ensure!(listed.len() == count && is_there, "{key}: {listed:?}");
        }
        Ok(pool)
    }

    fn compare(&self, pool: &Pool) -> Result<()> {
        if !pool.discarded_logs().is_empty() {
            bail!("lost without `-m`: {:?}", pool.discarded_logs());
        }
        let fs = machine::files(pool, POOL, self.layout.settings)?;
        let root = fs.znode(fs.root())?;
        let compared = self.promised.iter().try_for_each(|(name, bytes)| {
            let Some(found) = fs.lookup(&root, name.as_bytes())? else {
                bail!(Wrong(format!("{name} is lost")));
            };
            let file = fs.znode(found.object)?;
            let found = contents(&fs, &file)?;
            ensure!(found == *bytes, Wrong(format!("{name} is another")));
            Ok(())
        });
        if let Ok(open) = fs.dataset() {
            open.end()?;
        }
        compared
    }
}

/// A disk of which a part is of before.
fn mixed(now: &Image, before: &Image, kind: Exchange) -> Image {
    let (size, half) = (now.size(), now.size() / 2);
    let mut mixed = now.clone();
    match kind {
        Exchange::Older => mixed.copy(before, 0..size),
        Exchange::Middle => mixed.copy(before, LABELS..size - LABELS),
        Exchange::Tail => mixed.copy(before, half..size),
        Exchange::Head => mixed.copy(before, 0..half),
        Exchange::OddLabels => {
            mixed.copy(before, LABELS / 2..size - LABELS);
            mixed.copy(before, size - LABELS / 2..size);
        }
    }
    mixed
}

impl Layout {
    /// A layout with devices of several roles.
    fn with_roles(random: &mut Random) -> Self {
        use cenote_vdev::AllocationClass::Log;
        let mut vdevs = match random.below(7) {
            0 => vec![VdevPlan::single()],
            1 => vec![VdevPlan::single(); 2],
            2 => vec![VdevPlan::single(); 5],
            3 | 4 => vec![VdevPlan::mirror(2)],
            5 => vec![VdevPlan::mirror(3)],
            _ => vec![VdevPlan::raidz(1, 3)],
        };
        match random.below(6) {
            0 => {}
            1 => vdevs.extend([VdevPlan::single().class(Log); 2]),
            2 => vdevs.push(VdevPlan::mirror(2).class(Log)),
            _ => vdevs.push(VdevPlan::single().class(Log)),
        }
        let mut layout = Self::plain();
        layout.vdevs = vdevs;
        layout
    }
}
