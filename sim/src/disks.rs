//! Disks in memory, with a cache that loses what was not flushed.
//!
//! In a simulated world every request takes a little of its time, so that other threads run
//! meanwhile; how much is drawn by the seed. In a real one they are as fast as memory, so crates
//! below use them in tests of any kind. What a disk holds after a power cut is drawn, too
//! ([`Disks::after`]): what was flushed is there. Each later write is there, lost, or torn at a
//! sector, whatever became of those before it, because a disk writes its cache in the order that
//! suits it.

use crate::image::Image;
use crate::record::{Event, Record};
use cenote_base::rt::Random;
use cenote_base::rt::{self, Mutex, ranks};
use cenote_device::{Device, DeviceError, DeviceKind, Entry, Nature, Opener};
use cenote_pool::NewLeaf;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The unit that a disk writes whole or not at all.
const SECTOR: usize = 512;

/// The longest that a request takes.
const LATENCY_US_MAX: u64 = 200;

#[derive(Debug)]
struct Disk {
    number: usize,
    path: PathBuf,
    bytes: Mutex<Image, ranks::SimDisk>,
    /// The size that whoever has it open took note of.
    size: AtomicU64,
    shared: Arc<Shared>,
}

/// What all disks of a machine have in common.
#[derive(Debug)]
struct Shared {
    /// Events, while they are recorded.
    record: Mutex<Option<Record>, ranks::SimRecord>,
    random: Mutex<Random, ranks::SimRandom>,
}

impl Shared {
    /// Lets a request take its time.
    fn work(&self) {
        rt::assert_io_allowed();
        if !rt::is_simulated() {
            return;
        }
        let time = self.random.lock().below(LATENCY_US_MAX);
        rt::sleep(Duration::from_micros(time));
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
        self.shared.work();
        self.bytes.lock().read(index(offset), buffer);
        Ok(())
    }

    fn write_at(&self, offset: u64, new: &[u8]) -> Result<(), DeviceError> {
        rt::trace!(
            "disk {} write {offset} {} {}",
            self.number,
            new.len(),
            Digest(new)
        );
        let since = self.shared.note(|| Event::Write {
            disk: self.number,
            offset,
            bytes: new.to_vec(),
        });
        self.shared.work();
        self.bytes.lock().write(index(offset), new);
        if let Some(since) = since {
            self.shared.note(|| Event::Written { since });
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        let disk = self.number;
        let since = self.shared.note(|| Event::Flush { disk });
        self.shared.work();
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

    fn is_writable(&self) -> bool {
        true
    }
}

/// All disks of a machine.
#[derive(Debug)]
pub struct Disks {
    disks: Vec<Arc<Disk>>,
    shared: Arc<Shared>,
    /// They answer a flush at once and keep nothing by it.
    lose_flushes: bool,
    /// The disks as they were when the recording began.
    base: Mutex<Vec<Image>, ranks::SimBase>,
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
            random: Mutex::new(random),
        });
        let disk = |(number, bytes): (usize, Image)| {
            Arc::new(Disk {
                number,
                path: format!("disk{number}").into(),
                size: AtomicU64::new(bytes_of(&bytes)),
                bytes: Mutex::new(bytes),
                shared: Arc::clone(&shared),
            })
        };
        let disks = images.into_iter().enumerate().map(disk).collect();
        Self {
            disks,
            shared: Arc::clone(&shared),
            lose_flushes: false,
            base: Mutex::default(),
        }
    }

    /// Makes them lie about flushes, as some disks do: a test of the simulation.
    #[must_use]
    pub fn losing_flushes(self, are_lost: bool) -> Self {
        Self {
            lose_flushes: are_lost,
            ..self
        }
    }

    /// Where they are.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.disks.iter().map(|disk| disk.path.clone()).collect()
    }

    /// All of them, for a new pool.
    pub fn leaves(&self) -> Vec<NewLeaf> {
        let leaf = |disk: &Arc<Disk>| NewLeaf {
            path: disk.path.clone(),
            device: Arc::clone(disk) as Arc<dyn Device>,
            whole_disk: false,
        };
        self.disks.iter().map(leaf).collect()
    }

    /// Makes all disks larger; whoever has them open may take note of it.
    pub fn grow(&self, size: usize) {
        for disk in &self.disks {
            disk.bytes.lock().grow(size);
        }
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

    /// Begins to record.
    pub fn record(&self) {
        let images = self.disks.iter().map(|disk| disk.bytes.lock().clone());
        *self.base.lock() = images.collect();
        *self.shared.record.lock() = Some(Vec::new());
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
        if self.lose_flushes {
            safe.fill(false);
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

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("a disk in memory")
}

/// A few digits that stand for many bytes in a trace: FNV-1a, computed only where one is written.
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
        let disk = self.disks.iter().find(|disk| disk.path == path);
        match disk {
            Some(disk) => Ok(Arc::clone(disk) as Arc<dyn Device>),
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
