//! Disks in memory, with a cache that loses what was not flushed.
//!
//! In a simulated world every request takes a little of its time, so that other threads run
//! meanwhile; how much is drawn by the seed. In a real one they are as fast as memory, so crates
//! below use them in tests of any kind. What a disk holds after a power cut is drawn, too
//! ([`Disks::after`]): what was flushed is there. Each later write is there, lost, or torn at a
//! sector, whatever became of those before it, because a disk writes its cache in the order that
//! suits it.
//!
//! Disks can be sick ([`Sickness`]): they lie, fail, are slow, or write other data or elsewhere.
//! Their names can lead to other disks while they are open ([`Disks::exchange`]); records do not
//! contain that. They can have [`Trouble`]: fail flushes, be missing, and lose their cache without
//! a power cut.

use crate::disk_cache::{CacheMark, DiskCache, Request, Trouble};
use crate::image::Image;
use crate::record::{Event, Record};
use crate::sickness::{Fate, Sickness};
use cenote_base::rt::Random;
use cenote_base::rt::{self, Mutex, ranks};
use cenote_device::{Device, DeviceError, DeviceKind, Entry, Lead, Nature, Opener};
use cenote_pool::NewLeaf;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The unit that a disk writes whole or not at all.
const SECTOR: usize = 512;

/// What a request says that failed.
pub(crate) const BROKEN: &str = "the simulated disk is broken";

/// The longest that a request takes.
const LATENCY_US_MAX: u64 = 200;

#[derive(Debug)]
struct Disk {
    number: usize,
    path: PathBuf,
    /// How often another disk got this name before it did.
    serial: u64,
    bytes: Mutex<Image, ranks::SimDisk>,
    /// The data that it may lose, if the disk may have trouble.
    cache: Mutex<Option<DiskCache>, ranks::SimCache>,
    /// The size that open handles know.
    size: AtomicU64,
    shared: Arc<Shared>,
}

/// What all disks of a machine have in common.
#[derive(Debug)]
struct Shared {
    /// Events, while they are recorded.
    record: Mutex<Option<Record>, ranks::SimRecord>,
    chance: Mutex<Chance, ranks::SimRandom>,
    /// The serial numbers of the disks that names lead to, where it is not the first.
    serials: Mutex<BTreeMap<usize, u64>, ranks::SimNames>,
}

/// What is drawn for each request.
#[derive(Debug)]
struct Chance {
    random: Random,
    /// What is wrong with each disk.
    sick: Vec<Sickness>,
    /// What each disk does not do for now.
    troubles: Vec<Trouble>,
}

impl Shared {
    /// Delays a request, and returns its result.
    fn work(&self, disk: usize, request: Request) -> Fate {
        rt::assert_io_allowed();
        let (fate, time) = {
            let Chance {
                random,
                sick,
                troubles,
            } = &mut *self.chance.lock();
            let sick = &mut sick[disk];
            // A cache answers at once, and no other thread need run for that.
            let time = random
                .below(2 * LATENCY_US_MAX)
                .saturating_sub(LATENCY_US_MAX);
            let time = sick.delay(time);
            let fate = match troubles[disk].fails(request) {
                true => Fate::Failed,
                false => sick.fate(request != Request::Read, random),
            };
            (fate, time)
        };
        if time > 0 && rt::is_simulated() {
            rt::sleep(Duration::from_micros(time));
        }
        if fate != Fate::Done {
            rt::trace!("disk {disk}: {fate:?}");
        }
        fate
    }

    /// How often the name of a disk has been given to another one.
    fn serial(&self, name: usize) -> u64 {
        self.serials.lock().get(&name).copied().unwrap_or(0)
    }

    fn is_healthy(&self, disk: usize) -> bool {
        self.chance.lock().sick[disk].is_healthy()
    }

    /// Adds an event to the record; returns its place, or `None` if nothing is recorded.
    fn note(&self, event: impl FnOnce() -> Event) -> Option<usize> {
        let mut record = self.record.lock();
        record.as_mut().map(|record| {
            record.push(event());
            record.len() - 1
        })
    }
}

impl Device for Disk {
    fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    fn size_now(&self) -> u64 {
        bytes_of(&self.bytes.lock())
    }

    fn grow(&self) {
        self.size.store(self.size_now(), Ordering::Relaxed);
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        if self.shared.work(self.number, Request::Read) == Fate::Failed {
            return Err(DeviceError::Read {
                path: self.path.clone(),
                offset,
                length: buffer.len() as u64,
                source: broken(),
            });
        }
        self.bytes.lock().read(index(offset), buffer);
        Ok(())
    }

    fn write_at(&self, offset: u64, new: &[u8]) -> Result<(), DeviceError> {
        let disk = self.number;
        rt::trace!("disk {disk} write {offset} {} {}", new.len(), Digest(new));
        // From the beginning on a cut may leave some of it. What is not drawn for a healthy disk
        // cannot depend on how long it takes.
        let is_healthy = self.shared.is_healthy(disk) && self.cache.lock().is_none();
        let note = |offset, bytes: &[u8]| {
            self.shared.note(|| Event::Write {
                disk,
                offset,
                bytes: bytes.to_vec(),
            })
        };
        let early = is_healthy.then(|| note(offset, new)).flatten();
        let fate = self.shared.work(disk, Request::Write);
        let (offset, new) = match &fate {
            Fate::Failed => {
                return Err(DeviceError::Write {
                    path: self.path.clone(),
                    offset,
                    length: new.len() as u64,
                    source: broken(),
                });
            }
            Fate::Lost => return Ok(()),
            Fate::Done => (offset, Cow::Borrowed(new)),
            Fate::Elsewhere(place) => {
                let room = self.size() - new.len() as u64;
                let elsewhere = (place % (room + 1)) / SECTOR as u64 * SECTOR as u64;
                (elsewhere, Cow::Borrowed(new))
            }
            Fate::Spoiled(place) => {
                let mut spoiled = new.to_vec();
                let at = index(*place % new.len().max(1) as u64);
                spoiled
                    .iter_mut()
                    .skip(at)
                    .take(1)
                    .for_each(|byte| *byte ^= 0x10);
                (offset, Cow::Owned(spoiled))
            }
        };
        // One that was under way when the recording began is in no image yet.
        let since = early.or_else(|| note(offset, &new));
        self.write(index(offset), &new);
        if let Some(since) = since {
            self.shared.note(|| Event::Written { since });
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        let disk = self.number;
        let since = self.shared.note(|| Event::Flush { disk });
        let mark = self.cache.lock().as_ref().map(DiskCache::mark);
        let has_failed = self.shared.work(disk, Request::Flush) == Fate::Failed;
        if has_failed && self.shared.chance.lock().troubles[disk].loses {
            self.lose_cache();
        }
        if has_failed || !self.has_flushed(mark) {
            return Err(DeviceError::Flush {
                path: self.path.clone(),
                source: broken(),
            });
        }
        rt::trace!("disk {disk} flush");
        if let Some(since) = since {
            self.shared.note(|| Event::Flushed { disk, since });
        }
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> Result<(), DeviceError> {
        Ok(())
    }

    fn nature(&self) -> Nature {
        Nature {
            kind: DeviceKind::Memory,
            logical_block_size: 512,
            rotational: Some(false),
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn lead(&self) -> Lead {
        match self.shared.serial(self.number) == self.serial {
            true => Lead::Here,
            false => Lead::Elsewhere,
        }
    }

    fn is_writable(&self) -> bool {
        true
    }
}

impl Disk {
    fn write(&self, at: usize, new: &[u8]) {
        let is_kept = self.cache.lock().is_some();
        let mut bytes = self.bytes.lock();
        let old = is_kept.then(|| {
            let mut old = vec![0; new.len()];
            bytes.read(at, &mut old);
            old
        });
        bytes.write(at, new);
        drop(bytes);
        if let (Some(cache), Some(old)) = (self.cache.lock().as_mut(), old) {
            cache.add(at, old, new.to_vec());
        }
    }

    /// Empties the cache of what was there before a flush; `false` if it was lost meanwhile.
    fn has_flushed(&self, mark: Option<CacheMark>) -> bool {
        let mut cache = self.cache.lock();
        let cache = cache.as_mut().zip(mark);
        cache.is_none_or(|(cache, mark)| cache.flushed(mark))
    }

    /// Loses some of the cache. In the record, the disk writes back the old contents.
    fn lose_cache(&self) {
        let lost = self.cache.lock().as_mut().map(DiskCache::lose);
        let lost = lost.unwrap_or_default();
        let keep = [0, 0, 50, 100][self.shared.chance.lock().random.index(4)];
        let kept: Vec<bool> = {
            let random = &mut self.shared.chance.lock().random;
            lost.iter().map(|_| random.happens(keep)).collect()
        };
        let mut bytes = self.bytes.lock();
        for write in lost.iter().rev() {
            bytes.write(write.offset, &write.old);
        }
        for (write, _) in lost.iter().zip(kept).filter(|(_, is_kept)| *is_kept) {
            bytes.write(write.offset, &write.new);
        }
        let (disk, count) = (self.number, lost.len());
        let left: Vec<(u64, Vec<u8>)> = lost
            .into_iter()
            .map(|mut write| {
                bytes.read(write.offset, &mut write.new);
                (write.offset as u64, write.new)
            })
            .collect();
        drop(bytes);
        rt::trace!("disk {disk} loses its cache: {count} writes, {keep} % kept");
        for (offset, bytes) in left {
            let since = self.shared.note(|| Event::Write {
                disk,
                offset,
                bytes,
            });
            if let Some(since) = since {
                self.shared.note(|| Event::Written { since });
            }
        }
    }
}

/// All disks of a machine.
#[derive(Debug)]
pub struct Disks {
    disks: Vec<Arc<Disk>>,
    shared: Arc<Shared>,
    /// Which of them answer flushes and keep nothing by it.
    liars: Vec<bool>,
    /// The disks as they were when the recording began.
    base: Mutex<Vec<Image>, ranks::SimBase>,
    /// What names lead to now that led to other disks before.
    exchanged: Mutex<BTreeMap<usize, Arc<Disk>>, ranks::SimNames>,
}

impl Disks {
    /// Empty disks of `size` bytes.
    pub fn new(count: usize, size: usize, random: Random) -> Self {
        Self::of(vec![Image::zeros(size); count], random)
    }

    /// Disks with these contents.
    pub fn of(images: Vec<Image>, random: Random) -> Self {
        let shared = Arc::new(Shared {
            record: Mutex::new(None),
            chance: Mutex::new(Chance {
                random,
                sick: vec![Sickness::default(); images.len()],
                troubles: vec![Trouble::default(); images.len()],
            }),
            serials: Mutex::default(),
        });
        let disk = |(number, bytes): (usize, Image)| {
            Arc::new(Disk {
                number,
                path: format!("disk{number}").into(),
                serial: 0,
                size: AtomicU64::new(bytes_of(&bytes)),
                bytes: Mutex::new(bytes),
                cache: Mutex::new(None),
                shared: Arc::clone(&shared),
            })
        };
        let disks: Vec<_> = images.into_iter().enumerate().map(disk).collect();
        Self {
            liars: vec![false; disks.len()],
            disks,
            shared: Arc::clone(&shared),
            base: Mutex::default(),
            exchanged: Mutex::default(),
        }
    }

    /// The disk that a name leads to.
    fn named(&self, name: usize) -> Arc<Disk> {
        let exchanged = self.exchanged.lock();
        Arc::clone(exchanged.get(&name).unwrap_or(&self.disks[name]))
    }

    /// From now on the name of a disk leads to another one with these contents. What is open
    /// stays open, and what is written to it is nowhere else. Nothing is recorded.
    pub fn exchange(&self, name: usize, bytes: Image) {
        let serial = self.shared.serial(name) + 1;
        let disk = Disk {
            number: name,
            path: self.disks[name].path.clone(),
            serial,
            size: AtomicU64::new(bytes_of(&bytes)),
            bytes: Mutex::new(bytes),
            cache: Mutex::new(None),
            shared: Arc::clone(&self.shared),
        };
        self.shared.serials.lock().insert(name, serial);
        self.exchanged.lock().insert(name, Arc::new(disk));
    }

    /// What is on the disk that a name leads to.
    pub fn contents(&self, name: usize) -> Image {
        self.named(name).bytes.lock().clone()
    }

    /// Makes some of them lie about flushes, as some disks do.
    #[must_use]
    pub fn lying(self, liars: Vec<bool>) -> Self {
        Self { liars, ..self }
    }

    /// How many others have disks open.
    pub fn open_handles(&self) -> usize {
        let others = |disk: &Arc<Disk>| Arc::strong_count(disk) - 1;
        self.disks.iter().map(others).sum()
    }

    /// From now on something is wrong with a disk.
    pub fn sicken(&self, disk: usize, sickness: Sickness) {
        self.shared.chance.lock().sick[disk] = sickness;
    }

    /// From now on disks may have trouble, and note what they would lose.
    pub(crate) fn may_have_trouble(&self) {
        for disk in &self.disks {
            *disk.cache.lock() = Some(DiskCache::default());
        }
    }

    /// Changes what a disk does not do for now. One that goes away may lose its cache.
    pub(crate) fn trouble(&self, disk: usize, trouble: Trouble) {
        if trouble.is_away && trouble.loses {
            self.disks[disk].lose_cache();
        }
        self.shared.chance.lock().troubles[disk] = trouble;
    }

    /// Where they are.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.disks.iter().map(|disk| disk.path.clone()).collect()
    }

    /// All of them, for a new pool.
    pub fn leaves(&self) -> Vec<NewLeaf> {
        (0..self.disks.len()).map(|disk| self.leaf(disk)).collect()
    }

    /// One of them, for a pool.
    pub fn leaf(&self, disk: usize) -> NewLeaf {
        let disk = self.named(disk);
        NewLeaf {
            path: disk.path.clone(),
            device: disk as Arc<dyn Device>,
            whole_disk: false,
        }
    }

    /// Makes all disks larger. Open handles may notice it.
    pub fn grow(&self, size: usize) {
        for disk in &self.disks {
            disk.bytes.lock().grow(size);
        }
    }

    /// What is on them now.
    pub fn images(&self) -> Vec<Image> {
        let images = self.disks.iter().map(|disk| disk.bytes.lock().clone());
        images.collect()
    }

    /// Writes the disks into files, for others to look at.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn save(&self, directory: &Path) -> std::io::Result<()> {
        for disk in &self.disks {
            let path = directory.join(format!("{}.img", disk.path.display()));
            disk.bytes.lock().save(&path)?;
        }
        Ok(())
    }

    /// Begins to record. A write that ends in between is in the record and in the image.
    pub fn record(&self) {
        *self.shared.record.lock() = Some(Vec::new());
        let images = self.images();
        *self.base.lock() = images;
    }

    /// Adds an event to the record.
    pub fn note(&self, event: Event) {
        self.shared.note(|| event);
    }

    /// The events so far.
    pub fn recorded(&self) -> usize {
        self.shared.record.lock().as_ref().map_or(0, Vec::len)
    }

    /// Ends the recording.
    pub fn take_record(&self) -> Record {
        self.shared.record.lock().take().unwrap_or_default()
    }

    /// What the disks may hold after a power cut before the event with the number `cut`: of what
    /// was not flushed about `keep` percent.
    pub fn after(&self, record: &[Event], cut: usize, keep: u64, random: &mut Random) -> Self {
        let mut images = self.base.lock().clone();
        let mut safe = safe_writes(&record[..cut], images.len());
        for (safe, event) in safe.iter_mut().zip(record) {
            if matches!(event, Event::Write { disk, .. } if self.liars[*disk]) {
                *safe = false;
            }
        }
        for (place, event) in record[..cut].iter().enumerate() {
            let Event::Write {
                disk,
                offset,
                bytes,
            } = event
            else {
                continue;
            };
            let kept = match safe[place] {
                true => bytes.len(),
                false => survivors(bytes.len(), keep, random),
            };
            images[*disk].write(index(*offset), &bytes[..kept]);
        }
        Self::of(images, random.fork())
    }
}

/// Which of the events are writes that were answered before a flush that is done.
fn safe_writes(record: &[Event], disks: usize) -> Vec<bool> {
    let mut flushed = vec![0; disks];
    for event in record {
        if let Event::Flushed { disk, since } = *event {
            flushed[disk] = flushed[disk].max(since);
        }
    }
    let mut safe = vec![false; record.len()];
    for (place, event) in record.iter().enumerate() {
        if let Event::Written { since } = *event
            && let Event::Write { disk, .. } = record[since]
        {
            safe[since] = place < flushed[disk];
        }
    }
    safe
}

/// How many of a write's bytes a power cut leaves.
fn survivors(length: usize, keep: u64, random: &mut Random) -> usize {
    // A device that is on its way to the platter when the power goes has written some sectors.
    let is_torn = random.happens(5);
    match random.happens(keep) {
        true if is_torn => random.index(length.div_ceil(SECTOR) + 1) * SECTOR,
        true => length,
        false => 0,
    }
    .min(length)
}

fn bytes_of(image: &Image) -> u64 {
    u64::try_from(image.size()).expect("a word has 64 bits")
}

fn broken() -> std::io::Error {
    std::io::Error::other(BROKEN)
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("a disk in memory")
}

/// A short hash of many bytes for traces: FNV-1a, computed only if a trace is written.
struct Digest<'a>(&'a [u8]);

impl std::fmt::Display for Digest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digest = self.0.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3_u64)
        });
        write!(f, "{digest:016x}")
    }
}

impl Opener for Disks {
    fn open(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        let disk = self.disks.iter().position(|disk| disk.path == path);
        match disk {
            Some(disk) => Ok(self.named(disk) as Arc<dyn Device>),
            None => Err(DeviceError::Open {
                path: path.into(),
                source: std::io::ErrorKind::NotFound.into(),
            }),
        }
    }

    fn open_writable(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        self.open(path)
    }

    fn list(&self, _: &Path) -> Result<Option<Vec<Entry>>, DeviceError> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_base::rt::World;

    /// A write that was under way when the recording began was neither in the image that it began
    /// with nor in the record, so that cuts took away what had been flushed. (Seed 50588.)
    #[test]
    fn what_is_under_way_when_the_recording_begins_is_kept() {
        for seed in 0..40 {
            World::simulated(seed).run(|| {
                let disks = Disks::new(1, 1 << 20, Random::new(seed));
                let device = disks.leaf(0).device;
                rt::scope(|scope| {
                    scope.spawn(|| {
                        device.write_at(4096, &[7; SECTOR]).expect("written");
                        device.flush().expect("flushed");
                    });
                    rt::sleep(Duration::from_micros(LATENCY_US_MAX / 2));
                    disks.record();
                });
                let record = disks.take_record();
                let after = disks.after(&record, record.len(), 0, &mut Random::new(1));
                let mut bytes = [0; SECTOR];
                let device = after.leaf(0).device;
                device.read_at(4096, &mut bytes).expect("read");
                assert_eq!(bytes, [7; SECTOR], "seed {seed}");
            });
        }
    }
}
