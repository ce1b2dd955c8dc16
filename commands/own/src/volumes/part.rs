//! An image that is being written, under a temporary name until it is complete.

use cenote_words::context::{Stop, failed};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// An error about a file.
pub fn about(path: &Path, error: &dyn std::fmt::Display) -> Stop {
    Stop::Failed(format!("{}: {error}", path.display()))
}

/// The path of the image to create. Links are followed, and the target must be a regular file or
/// new.
pub fn target(path: PathBuf, is_forced: bool) -> Result<PathBuf, Stop> {
    let found = match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(path),
        found => found.map_err(|error| about(&path, &error))?,
    };
    let path = match found.is_symlink() {
        true => path.canonicalize().map_err(|error| about(&path, &error))?,
        false => path,
    };
    let found = fs::metadata(&path).map_err(|error| about(&path, &error))?;
    match (found.is_file(), is_forced) {
        (true, true) => Ok(path),
        (true, false) => failed(format!(
            "{} exists; use -f to overwrite it, or name another file",
            path.display()
        )),
        // The rename would replace it by a regular file.
        (false, _) => failed(format!(
            "{} is not a regular file, and export makes files. To copy a volume to a device, \
             serve it with 'cenote nbd serve' and use nbdcopy or qemu-img",
            path.display()
        )),
    }
}

/// `IMAGE.part`, locked by one export.
pub struct PartFile {
    pub path: PathBuf,
    pub file: File,
}

impl PartFile {
    /// Creates the file, or reuses one that a killed export left.
    pub fn create(image: &Path) -> Result<Self, Stop> {
        let mut path = image.as_os_str().to_owned();
        path.push(".part");
        let path = PathBuf::from(path);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&path, flags, Mode::from_raw_mode(0o666));
        let file = File::from(opened.map_err(|error| about(&path, &error))?);
        let other = "another export writes to it; wait until it ends, or name another image";
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            // `NOLCK` and so on: the file system has no locks.
            Ok(()) | Err(Errno::NOLCK | Errno::NOTSUP | Errno::NOSYS) => {}
            Err(Errno::WOULDBLOCK) => return Err(about(&path, &other)),
            Err(errno) => return Err(about(&path, &errno)),
        }
        let known = file.metadata().map_err(|error| about(&path, &error))?;
        // The other export may have ended and renamed the file before we locked it.
        let named = fs::symlink_metadata(&path).map_err(|_| about(&path, &other))?;
        if !known.is_file() || (known.dev(), known.ino()) != (named.dev(), named.ino()) {
            return Err(about(&path, &other));
        }
        file.set_len(0).map_err(|error| about(&path, &error))?;
        Ok(Self { path, file })
    }

    /// Releases the lock, so that another program can lock the file.
    pub fn unlock(&self) {
        // Fails only where the file system has no locks.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }

    /// Gives the image its final name, durably.
    pub fn finish(self, image: &Path) -> Result<(), Stop> {
        let synced = self.file.sync_all();
        let renamed = synced.and_then(|()| fs::rename(&self.path, image));
        if let Err(error) = renamed {
            self.discard();
            return Err(about(image, &error));
        }
        let above = image.parent().map_or(Ok(()), |above| {
            File::open(above).and_then(|directory| directory.sync_all())
        });
        above.map_err(|error| about(image, &error))
    }

    /// Removes the file.
    pub fn discard(self) {
        // It may not exist.
        let _ = fs::remove_file(&self.path);
    }
}
