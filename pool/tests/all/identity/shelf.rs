//! Disks on shelves of several sites: they are moved, copied, and pulled out while in use.

use cenote_device::{Device, DeviceError, DeviceKind, Entry, EntryKind, Nature, Opener};
use cenote_sim::Image;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};

/// What is on a disk.
#[derive(Debug)]
pub struct Disk {
    pub number: usize,
    bytes: RwLock<Image>,
    /// It was written to since the last call of [`Disk::take_written`].
    is_written: AtomicBool,
}

impl Disk {
    pub fn take_written(&self) -> bool {
        self.is_written.swap(false, Ordering::AcqRel)
    }

    pub fn copy(&self, number: usize) -> Arc<Self> {
        let bytes = self.bytes.read().expect("sound").clone();
        Arc::new(Self {
            number,
            bytes: RwLock::new(bytes),
            is_written: AtomicBool::new(false),
        })
    }
}

/// An open handle of a disk: it fails once the disk is pulled out.
#[derive(Debug)]
struct Handle {
    disk: Arc<Disk>,
    path: PathBuf,
    slot: Arc<AtomicBool>,
}

impl Handle {
    fn check(&self) -> Result<(), DeviceError> {
        match self.slot.load(Ordering::Acquire) {
            true => Ok(()),
            false => Err(absent(&self.path)),
        }
    }
}

fn absent(path: &Path) -> DeviceError {
    DeviceError::Open {
        path: path.into(),
        source: ErrorKind::NotFound.into(),
    }
}

impl Device for Handle {
    fn size(&self) -> u64 {
        self.disk.bytes.read().expect("sound").size() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.check()?;
        let bytes = self.disk.bytes.read().expect("sound");
        bytes.read(offset as usize, buffer);
        Ok(())
    }

    fn write_at(&self, offset: u64, new: &[u8]) -> Result<(), DeviceError> {
        let mut bytes = self.disk.bytes.write().expect("sound");
        self.check()?;
        self.disk.is_written.store(true, Ordering::Release);
        bytes.write(offset as usize, new);
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.check()
    }

    fn discard(&self, _: u64, _: u64) -> Result<(), DeviceError> {
        self.check()
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

type Slots = BTreeMap<PathBuf, (Arc<Disk>, Arc<AtomicBool>)>;

/// All sites' disks; a site is a directory.
#[derive(Debug, Default)]
pub struct Shelf {
    slots: Mutex<Slots>,
}

impl Shelf {
    pub fn blank(number: usize, size: usize) -> Arc<Disk> {
        Arc::new(Disk {
            number,
            bytes: RwLock::new(Image::zeros(size)),
            is_written: AtomicBool::new(false),
        })
    }

    pub fn put(&self, path: &Path, disk: Arc<Disk>) {
        let mut slots = self.slots.lock().expect("sound");
        let slot = (disk, Arc::new(AtomicBool::new(true)));
        assert!(
            slots.insert(path.into(), slot).is_none(),
            "{path:?} is free"
        );
    }

    pub fn pull(&self, path: &Path) -> Arc<Disk> {
        let (disk, slot) = self
            .slots
            .lock()
            .expect("sound")
            .remove(path)
            .expect("there");
        // No write is under way when this returns.
        let _writing = disk.bytes.write().expect("sound");
        slot.store(false, Ordering::Release);
        Arc::clone(&disk)
    }

    pub fn at(&self, site: &str) -> Vec<(PathBuf, Arc<Disk>)> {
        let slots = self.slots.lock().expect("sound");
        let here = slots.iter().filter(|(path, _)| path.starts_with(site));
        let here = here.map(|(path, (disk, _))| (path.clone(), Arc::clone(disk)));
        here.collect()
    }

    pub fn all(&self) -> Vec<(PathBuf, Arc<Disk>)> {
        self.at("/")
    }
}

impl Opener for Shelf {
    fn open(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        let slots = self.slots.lock().expect("sound");
        let (disk, slot) = slots.get(path).ok_or_else(|| absent(path))?;
        Ok(Arc::new(Handle {
            disk: Arc::clone(disk),
            path: path.into(),
            slot: Arc::clone(slot),
        }))
    }

    fn open_writable(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        self.open(path)
    }

    fn list(&self, path: &Path) -> Result<Option<Vec<Entry>>, DeviceError> {
        if self.slots.lock().expect("sound").contains_key(path) {
            return Ok(None);
        }
        let here = self.at(path.to_str().expect("plain"));
        let entry = |(path, disk): (PathBuf, Arc<Disk>)| Entry {
            path,
            kind: EntryKind::File(disk.bytes.read().expect("sound").size() as u64),
        };
        Ok(Some(here.into_iter().map(entry).collect()))
    }
}

/// What one site can open.
#[derive(Debug)]
pub struct Place {
    pub shelf: Arc<Shelf>,
    pub path: PathBuf,
}

impl Place {
    fn check(&self, path: &Path) -> Result<(), DeviceError> {
        match path.starts_with(&self.path) {
            true => Ok(()),
            false => Err(absent(path)),
        }
    }
}

impl Opener for Place {
    fn open(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        self.check(path)?;
        self.shelf.open(path)
    }

    fn open_writable(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        self.check(path)?;
        self.shelf.open_writable(path)
    }

    fn list(&self, path: &Path) -> Result<Option<Vec<Entry>>, DeviceError> {
        self.check(path)?;
        self.shelf.list(path)
    }
}
