//! Disks in memory that remember in which order they were written and flushed.
#![allow(dead_code, reason = "each test file uses a part of it")]

mod image;

pub use image::Image;

use cenote_device::{Device, DeviceError, DeviceKind, Entry, Nature, Opener};
use cenote_pool::NewLeaf;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

/// What was done to a disk.
#[derive(Clone, Debug)]
pub enum Op {
    Write(u64, Vec<u8>),
    Flush,
}

/// Operations in order, each with the number of its disk.
pub type Log = Vec<(usize, Op)>;

#[derive(Debug)]
struct Disk {
    number: usize,
    path: PathBuf,
    bytes: RwLock<Image>,
    /// The size that was taken note of.
    size: AtomicU64,
    log: Arc<Mutex<Option<Log>>>,
}

impl Device for Disk {
    fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    fn size_now(&self) -> u64 {
        self.bytes.read().expect("sound").size() as u64
    }

    fn grow(&self) {
        self.size.store(self.size_now(), Ordering::Relaxed);
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        let bytes = self.bytes.read().expect("sound");
        bytes.read(offset as usize, buffer);
        Ok(())
    }

    fn write_at(&self, offset: u64, new: &[u8]) -> Result<(), DeviceError> {
        let mut bytes = self.bytes.write().expect("sound");
        bytes.write(offset as usize, new);
        if let Some(log) = &mut *self.log.lock().expect("sound") {
            log.push((self.number, Op::Write(offset, new.to_vec())));
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        if let Some(log) = &mut *self.log.lock().expect("sound") {
            log.push((self.number, Op::Flush));
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

/// All disks of a pool.
#[derive(Debug)]
pub struct World {
    disks: Vec<Arc<Disk>>,
    log: Arc<Mutex<Option<Log>>>,
    /// The disks as they were when the recording began.
    base: Mutex<Vec<Image>>,
}

impl World {
    pub fn new(count: usize, size: usize) -> Arc<Self> {
        Arc::new(Self::of_images(vec![Image::zeros(size); count]))
    }

    /// Disks with these contents.
    pub fn of(images: Vec<Vec<u8>>) -> Self {
        Self::of_images(images.iter().map(|bytes| Image::of(bytes)).collect())
    }

    fn of_images(images: Vec<Image>) -> Self {
        let log = Arc::new(Mutex::new(None));
        let disk = |(number, bytes): (usize, Image)| {
            Arc::new(Disk {
                number,
                path: format!("disk{number}").into(),
                size: AtomicU64::new(bytes.size() as u64),
                bytes: RwLock::new(bytes),
                log: Arc::clone(&log),
            })
        };
        let disks = images.into_iter().enumerate().map(disk).collect();
        Self {
            disks,
            log,
            base: Mutex::default(),
        }
    }

    pub fn paths(&self) -> Vec<PathBuf> {
        self.disks.iter().map(|disk| disk.path.clone()).collect()
    }

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
            disk.bytes.write().expect("sound").grow(size);
        }
    }

    /// Writes the disks into files, for others to look at.
    pub fn save(&self, directory: &Path) {
        for disk in &self.disks {
            let path = directory.join(format!("{}.img", disk.path.display()));
            disk.bytes.read().expect("sound").save(&path);
        }
    }

    /// Begins to remember.
    pub fn record(&self) {
        let images = self
            .disks
            .iter()
            .map(|disk| disk.bytes.read().expect("sound").clone());
        *self.base.lock().expect("sound") = images.collect();
        *self.log.lock().expect("sound") = Some(Vec::new());
    }

    pub fn recorded(&self) -> usize {
        self.log.lock().expect("sound").as_ref().map_or(0, Vec::len)
    }

    pub fn take_log(&self) -> Log {
        self.log.lock().expect("sound").take().unwrap_or_default()
    }

    /// The disks after these operations and a power cut: what was not flushed is there with a
    /// probability of `keep` percent.
    pub fn after(&self, log: &[(usize, Op)], keep: u64, random: &mut u64) -> Self {
        let mut images = self.base.lock().expect("sound").clone();
        let mut flushed = vec![0; images.len()];
        for (index, (disk, op)) in log.iter().enumerate() {
            if matches!(op, Op::Flush) {
                flushed[*disk] = index;
            }
        }
        for (index, (disk, op)) in log.iter().enumerate() {
            *random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let is_lucky = (*random >> 33) % 100 < keep;
            if let Op::Write(offset, bytes) = op
                && (index < flushed[*disk] || is_lucky)
            {
                images[*disk].write(*offset as usize, bytes);
            }
        }
        Self::of_images(images)
    }
}

impl Opener for World {
    fn open(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        let disk = self.disks.iter().find(|disk| disk.path == path);
        Ok(Arc::clone(disk.expect("a disk of this world")) as Arc<dyn Device>)
    }

    fn open_writable(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        self.open(path)
    }

    fn list(&self, _: &Path) -> Result<Option<Vec<Entry>>, DeviceError> {
        Ok(None)
    }
}
