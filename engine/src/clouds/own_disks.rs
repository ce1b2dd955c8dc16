//! Disks of this machine that are volumes of this daemon.
//!
//! A daemon that stores a pool on a disk that it serves itself waits for itself sooner or later.
//! The kernel says what is below a device: the disk of a partition, the file of a loop device, the
//! disks of LVM and MD, the disk of a file system. All of that is followed. What is behind another
//! machine, or another file system in user space, is not recognized.
//!
//! A disk whose daemon died answers nothing until it is taken over, which takes an import of its
//! pool. A search for pools in `/dev` must not read it before: the daemon would wait for itself.

use cenote_base::rt::{Mutex, ranks};
use cenote_device::{Device, DeviceError, Entry, Opener};
use rustix::fs::{major, minor};
use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most devices below one that are checked; real stacks are smaller.
const LOOKS_MAX: usize = 256;

/// Says which disks daemons left when they died.
pub type ListLeft = Arc<dyn Fn() -> Vec<u32> + Send + Sync>;

/// The numbers of these disks.
pub struct OwnDisks {
    numbers: Mutex<BTreeSet<u32>, ranks::OwnDisks>,
    sys: PathBuf,
    left: ListLeft,
}

impl fmt::Debug for OwnDisks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnDisks").field("sys", &self.sys).finish()
    }
}

/// The number of a disk by its name: `ublkb3`.
pub fn disk_number(name: &str) -> Option<u32> {
    name.strip_prefix("ublkb")?.parse().ok()
}

impl Default for OwnDisks {
    fn default() -> Self {
        Self::new(Path::new("/sys"), Arc::new(Vec::new))
    }
}

impl OwnDisks {
    /// None yet; `sys` is where the kernel says what devices are made of.
    pub fn new(sys: &Path, left: ListLeft) -> Self {
        Self {
            numbers: Mutex::default(),
            sys: sys.to_owned(),
            left,
        }
    }

    /// A disk of this number is a volume of this daemon.
    pub fn add(&self, number: u32) {
        self.numbers.lock().insert(number);
    }

    /// It is not any more.
    pub fn remove(&self, number: u32) {
        self.numbers.lock().remove(&number);
    }

    /// Refuses a device on one of these disks.
    fn check(&self, path: &Path) -> Result<(), DeviceError> {
        // If it does not exist, opening it fails later.
        let Ok(metadata) = fs::metadata(path) else {
            return Ok(());
        };
        let text = match self.below(&metadata) {
            None => return Ok(()),
            Some((number, true)) => format!(
                "it is on /dev/ublkb{number}, a volume of this daemon, which would wait for \
                 itself; serve the volume by another daemon ($CENOTE_SOCKET)"
            ),
            Some((number, false)) => format!(
                "it is on /dev/ublkb{number}, whose daemon died; it answers once the pool of that \
                 volume is imported ('cenote ublk status')"
            ),
        };
        Err(DeviceError::Open {
            path: path.into(),
            source: io::Error::other(text),
        })
    }

    /// The disk that a file or device is on, if it is one of our own (true) or was left (false).
    fn below(&self, metadata: &Metadata) -> Option<(u32, bool)> {
        let mut waiting = vec![self.place(metadata)];
        let mut looks = 0;
        while let Some(place) = waiting.pop() {
            looks += 1;
            let Ok(place) = fs::canonicalize(place) else {
                continue;
            };
            let name = place.file_name()?.to_string_lossy().into_owned();
            if let Some(number) = disk_number(&name) {
                let is_own = self.numbers.lock().contains(&number);
                if is_own || (self.left)().contains(&number) {
                    return Some((number, is_own));
                }
            }
            if looks + waiting.len() > LOOKS_MAX {
                break;
            }
            if place.join("partition").exists() {
                waiting.extend(place.parent().map(Path::to_owned));
            }
            if let Ok(slaves) = fs::read_dir(place.join("slaves")) {
                let slaves = slaves.take(LOOKS_MAX).flatten();
                waiting.extend(slaves.map(|slave| slave.path()));
            }
            let file = fs::read_to_string(place.join("loop/backing_file"));
            let file = file
                .ok()
                .and_then(|file| fs::metadata(file.trim_end()).ok());
            waiting.extend(file.map(|file| self.place(&file)));
        }
        None
    }

    /// What the system says of a device, or of that of a file's file system.
    fn place(&self, metadata: &Metadata) -> PathBuf {
        let device = match metadata.file_type().is_block_device() {
            true => metadata.rdev(),
            false => metadata.dev(),
        };
        let name = format!("{}:{}", major(device), minor(device));
        self.sys.join("dev/block").join(name)
    }
}

/// Opens files and devices that are not on own disks.
#[derive(Debug)]
pub(super) struct Foreign {
    inner: Arc<dyn Opener>,
    own: Arc<OwnDisks>,
}

impl Foreign {
    pub fn new(inner: Arc<dyn Opener>, own: &Arc<OwnDisks>) -> Self {
        let own = Arc::clone(own);
        Self { inner, own }
    }
}

impl Opener for Foreign {
    fn open(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        self.own.check(path)?;
        self.inner.open(path)
    }

    fn open_writable(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        self.own.check(path)?;
        self.inner.open_writable(path)
    }

    fn identity(&self, path: &Path) -> Option<(u64, u64)> {
        self.inner.identity(path)
    }

    fn list(&self, path: &Path) -> Result<Option<Vec<Entry>>, DeviceError> {
        self.inner.list(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A tree like the kernel's: this machine's device of a file is `top`.
    fn refusal(file: &Path, top: &str) -> Option<String> {
        let directory = tempfile::tempdir().expect("a directory");
        let sys = directory.path();
        let at = |place: &str| {
            let place = sys.join("block").join(place);
            fs::create_dir_all(&place).expect("made");
            place
        };
        fs::write(at("ublkb3/ublkb3p1").join("partition"), "1").expect("written");
        let own = OwnDisks::new(sys, Arc::new(|| vec![5]));
        own.add(3);
        let metadata = fs::metadata(file).expect("there");
        let link = own.place(&metadata);
        fs::create_dir_all(link.parent().expect("a directory")).expect("made");
        fs::create_dir_all(at("dm-0/slaves")).expect("made");
        symlink(at("ublkb3"), at("dm-0/slaves").join("ublkb3")).expect("made");
        symlink(at(top), link).expect("made");
        own.check(file).err().map(|error| error.to_string())
    }

    #[test]
    fn a_disk_of_this_daemon_is_recognized_below_others() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let refused = |top: &str| refusal(file.path(), top);
        for top in ["ublkb3", "ublkb3/ublkb3p1", "dm-0"] {
            let text = refused(top).unwrap_or_default();
            assert!(text.contains("on /dev/ublkb3, a volume of this"), "{text}");
        }
        // Its daemon died: a read would wait for the import that does it.
        let text = refused("ublkb5").unwrap_or_default();
        assert!(text.contains("ublkb5, whose daemon died"), "{text}");
        for top in ["ublkb4", "sda", "ublkb"] {
            assert_eq!(refused(top), None, "{top}");
        }
    }

    #[test]
    fn without_own_disks_nothing_is_refused() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let own = OwnDisks::new(Path::new("/sys"), Arc::new(Vec::new));
        own.check(file.path()).expect("it may");
        own.add(0);
        own.check(Path::new("/not/there"))
            .expect("others refuse it");
    }
}
