//! The local side of a device: a directory with its log and its read cache.
//!
//! There is one for each device *and* way to it, so that two stores of which one is a copy of the
//! other do not share one. It is locked while the device is open, so two programs on one host never
//! continue from one log. Everything in it but the log can be lost without harm, and the log
//! without loss of consistency.

use cenote_base::rt;
use cenote_device::{Device, DeviceError, FileDevice, FileOptions};
use rustix::fs::{FallocateFlags, FlockOperation};
use rustix::io::Errno;
use std::fmt::Debug;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long the directory is waited for while another program has it: one that was killed keeps the
/// lock until the system has closed its files.
const LOCK_WAIT: Duration = Duration::from_secs(3);
/// How often it is tried.
const LOCK_POLL: Duration = Duration::from_millis(20);

/// What went wrong with a local side.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// Another program has the device open.
    #[error("{}: in use by another program", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The system does not do what is needed.
    #[error("{}: {source}", path.display())]
    Io {
        /// What it is about.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file cannot be used.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Where a device keeps what it has on this side.
pub trait Place: Debug + Send + Sync {
    /// The log, made with its full size if there is none.
    ///
    /// # Errors
    /// No room, no right, or a failing disk.
    fn log(&self) -> Result<Arc<dyn Device>, PlaceError>;

    /// Keeps the log under another name, so that the next one is new.
    ///
    /// # Errors
    /// The system's.
    fn put_log_aside(&self, name: &str) -> Result<(), PlaceError>;

    /// The read cache, made if there is none; `None` where no cache is wanted.
    ///
    /// # Errors
    /// No room, no right, or a failing disk.
    fn cache(&self) -> Result<Option<Arc<dyn Device>>, PlaceError>;

    /// A small file, if it is there.
    ///
    /// # Errors
    /// The system's.
    fn load(&self, name: &str) -> Result<Option<Vec<u8>>, PlaceError>;

    /// Writes a small file as a whole.
    ///
    /// # Errors
    /// The system's.
    fn save(&self, name: &str, bytes: &[u8]) -> Result<(), PlaceError>;

    /// Where it is, for people.
    fn name(&self) -> String;
}

/// A directory of the system, locked for as long as this lives.
#[derive(Debug)]
pub struct DirectoryPlace {
    path: PathBuf,
    log_size: u64,
    cache_size: u64,
    _lock: File,
}

impl DirectoryPlace {
    /// Opens the directory `path`; creates it if needed, accessible only to its owner. Sizes are in
    /// bytes; an existing log keeps its size.
    ///
    /// # Errors
    /// [`PlaceError::InUse`] if another program has it; the system's otherwise.
    pub fn open(path: &Path, log_size: u64, cache_size: u64) -> Result<Self, PlaceError> {
        let fail = |source| PlaceError::Io {
            path: path.into(),
            source,
        };
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(path).map_err(fail)?;
        let lock = File::create(path.join("lock")).map_err(fail)?;
        let mut rounds = LOCK_WAIT.as_millis() / LOCK_POLL.as_millis();
        loop {
            match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK) if rounds > 0 => {
                    rounds -= 1;
                    rt::sleep(LOCK_POLL);
                }
                Err(Errno::WOULDBLOCK) => return Err(PlaceError::InUse { path: path.into() }),
                Err(errno) => return Err(fail(errno.into())),
            }
        }
        Ok(Self {
            path: path.into(),
            log_size,
            cache_size,
            _lock: lock,
        })
    }

    fn io(&self, name: &str, source: io::Error) -> PlaceError {
        PlaceError::Io {
            path: self.path.join(name),
            source,
        }
    }

    /// A file of `size` bytes, made if there is none. With `is_reserved` its space is, too, so that
    /// no flush fails for want of it.
    fn file(
        &self,
        name: &str,
        size: u64,
        is_reserved: bool,
    ) -> Result<Arc<dyn Device>, PlaceError> {
        let path = self.path.join(name);
        // A file that is there, or may be, is not replaced.
        let is_free = match std::fs::symlink_metadata(&path) {
            Ok(_) => false,
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(source) => return Err(self.io(name, source)),
        };
        if is_free {
            let make = || -> io::Result<()> {
                let temporary = self.path.join(format!("{name}.new"));
                let file = File::create(&temporary)?;
                file.set_len(size)?;
                if is_reserved {
                    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size) {
                        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
                        Err(errno) => return Err(errno.into()),
                    }
                }
                file.sync_all()?;
                std::fs::rename(&temporary, &path)?;
                File::open(&self.path)?.sync_all()
            };
            make().map_err(|source| self.io(name, source))?;
        }
        let options = FileOptions {
            writable: true,
            direct: false,
        };
        Ok(Arc::new(FileDevice::open(&path, options)?))
    }
}

impl Place for DirectoryPlace {
    fn log(&self) -> Result<Arc<dyn Device>, PlaceError> {
        self.file("log", self.log_size, true)
    }

    fn put_log_aside(&self, name: &str) -> Result<(), PlaceError> {
        let renamed = std::fs::rename(self.path.join("log"), self.path.join(name));
        renamed.map_err(|source| self.io(name, source))
    }

    fn cache(&self) -> Result<Option<Arc<dyn Device>>, PlaceError> {
        match self.cache_size {
            0 => Ok(None),
            size => Ok(Some(self.file("cache", size, false)?)),
        }
    }

    fn load(&self, name: &str) -> Result<Option<Vec<u8>>, PlaceError> {
        match std::fs::read(self.path.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(self.io(name, source)),
        }
    }

    fn save(&self, name: &str, bytes: &[u8]) -> Result<(), PlaceError> {
        let save = || -> io::Result<()> {
            let temporary = self.path.join(format!("{name}.new"));
            std::fs::write(&temporary, bytes)?;
            std::fs::rename(&temporary, self.path.join(name))
        };
        save().map_err(|source| self.io(name, source))
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a log that could not be looked at was replaced by an empty one.
    #[test]
    fn a_log_that_is_elsewhere_is_not_replaced() {
        let home = tempfile::tempdir().expect("a directory");
        let place = home.path().join("place");
        let place = DirectoryPlace::open(&place, 1 << 20, 0).expect("a new one");
        let link = home.path().join("place/log");
        std::os::unix::fs::symlink("/not/mounted/log", &link).expect("made");
        place.log().expect_err("its disk is away");
        assert!(link.is_symlink(), "it leads there as before");
    }

    #[test]
    fn a_place_is_for_one() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("deep/inside");
        let place = DirectoryPlace::open(&path, 1 << 20, 0).expect("a new one");
        let second = DirectoryPlace::open(&path, 1 << 20, 0);
        assert!(matches!(second, Err(PlaceError::InUse { .. })));
        assert_eq!(place.log().expect("preallocated").size(), 1 << 20);
        assert!(place.cache().expect("no cache").is_none());
        place.put_log_aside("old").expect("renamed");
        place.save("small", b"x").expect("room");
        drop(place);
        let place = DirectoryPlace::open(&path, 1 << 20, 4096).expect("unlocked");
        assert_eq!(place.load("small").expect("there"), Some(b"x".to_vec()));
        assert_eq!(place.load("none").expect("not there"), None);
        assert!(place.cache().expect("a cache").is_some());
        assert!(path.join("old").exists());
    }
}
