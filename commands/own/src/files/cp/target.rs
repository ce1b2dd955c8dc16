//! Directories that a copy writes into.
//!
//! All operations are relative to open directories and never follow symbolic links. So nothing
//! outside the target is written, whatever the target contains. Directories near the top may be
//! closed to save descriptors. They are opened again from the top, again without following links.

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawMode};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// The flags to open a directory without following links.
fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

/// An open directory.
#[derive(Debug)]
pub struct TargetDirectory(OwnedFd);

/// What a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its type.
    pub kind: FileType,
    /// Its size in bytes.
    pub size: u64,
    /// When it was modified: seconds and nanoseconds.
    pub modified: (i64, i64),
}

impl AsFd for TargetDirectory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl TargetDirectory {
    /// Opens the directory that the user named; links in its path are followed.
    pub fn open_top(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
        Ok(Self(fd))
    }

    /// Opens a directory in this one.
    pub fn open(&self, name: &[u8]) -> io::Result<Self> {
        let fd = rustix::fs::openat(&self.0, name, directory_flags(), Mode::empty())?;
        Ok(Self(fd))
    }

    /// Opens a directory below this one by its relative path.
    pub fn open_path(&self, path: &[u8]) -> io::Result<Self> {
        let mut at = Self(self.0.try_clone()?);
        for name in path
            .split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty())
        {
            at = at.open(name)?;
        }
        Ok(at)
    }

    /// Creates a directory, or opens the existing one. `is_private` hides it from other users until
    /// its own mode is set.
    pub fn make(&self, name: &[u8], is_private: bool) -> io::Result<Self> {
        let mode = if is_private { 0o700 } else { 0o777 };
        match rustix::fs::mkdirat(&self.0, name, Mode::from_raw_mode(mode)) {
            Ok(()) | Err(Errno::EXIST) => self.open(name),
            Err(error) => Err(error.into()),
        }
    }

    /// What `name` refers to; `None` if it does not exist.
    pub fn look(&self, name: &[u8]) -> io::Result<Option<Standing>> {
        match rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Standing {
                kind: FileType::from_raw_mode(stat.st_mode as RawMode),
                size: u64::try_from(stat.st_size).unwrap_or(0),
                modified: (stat.st_mtime, stat.st_mtime_nsec as i64),
            })),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens `name` for writing: a new file, or with `goes_on` the existing one.
    pub fn create(&self, name: &[u8], mode: RawMode, goes_on: bool) -> io::Result<File> {
        let base = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if goes_on {
            let fd = rustix::fs::openat(&self.0, name, base, Mode::empty())?;
            return Ok(File::from(fd));
        }
        let flags = base | OFlags::CREATE | OFlags::EXCL;
        let mode = Mode::from_raw_mode(mode);
        let fd = self.in_place_of(name, || rustix::fs::openat(&self.0, name, flags, mode))?;
        Ok(File::from(fd))
    }

    /// Creates something as `name`, in place of what had that name.
    fn in_place_of<T>(&self, name: &[u8], make: impl Fn() -> Result<T, Errno>) -> io::Result<T> {
        match make() {
            Err(Errno::EXIST) => {
                self.remove(name)?;
                Ok(make()?)
            }
            made => Ok(made?),
        }
    }

    /// Makes a symbolic link.
    pub fn symlink(&self, target: &[u8], name: &[u8]) -> io::Result<()> {
        self.in_place_of(name, || rustix::fs::symlinkat(target, &self.0, name))
    }

    /// Makes a device node, a named pipe or a socket.
    pub fn node(&self, name: &[u8], kind: FileType, device: (u32, u32)) -> io::Result<()> {
        let number = rustix::fs::makedev(device.0, device.1);
        let mode = Mode::from_raw_mode(0o600);
        self.in_place_of(name, || {
            rustix::fs::mknodat(&self.0, name, kind, mode, number)
        })
    }

    /// Makes `name` another name of `old_name` in `old`; a symbolic link is not followed.
    pub fn link(&self, old: &Self, old_name: &[u8], name: &[u8]) -> io::Result<()> {
        let none = AtFlags::empty();
        self.in_place_of(name, || {
            rustix::fs::linkat(&old.0, old_name, &self.0, name, none)
        })
    }

    /// Removes a name of anything but a directory, if it exists.
    pub fn remove(&self, name: &[u8]) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.0, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Renames a finished file, replacing anything but a directory.
    pub fn rename(&self, from: &[u8], to: &[u8]) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, from, &self.0, to)?)
    }

    /// As [`Self::rename`], for a new name of a file with other names.
    pub fn rename_link(&self, from: &[u8], to: &[u8]) -> io::Result<()> {
        self.rename(from, to)?;
        // If both are names of one file, rename does nothing and the first name remains.
        self.remove(from)
    }

    /// Opens any kind of file, only to change its attributes.
    pub fn handle(&self, name: &[u8]) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.0, name, flags, Mode::empty())?)
    }

    /// Writes out all data of the file system. The kernel does not pass `syncfs` to FUSE servers.
    /// On a mount of Cenote the `fsync` covers the whole pool.
    pub fn sync(&self) -> io::Result<()> {
        rustix::fs::syncfs(&self.0)?;
        Ok(rustix::fs::fsync(&self.0)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_not_followed() {
        let outside = tempfile::tempdir().unwrap();
        let inside = tempfile::tempdir().unwrap();
        symlink(outside.path(), inside.path().join("way-out")).unwrap();
        symlink(outside.path().join("file"), inside.path().join("link")).unwrap();
        std::fs::write(outside.path().join("file"), "untouched").unwrap();
        let top = TargetDirectory::open_top(inside.path()).unwrap();
        assert!(top.open(b"way-out").is_err());
        assert!(top.make(b"way-out", true).is_err());
        assert!(top.open_path(b"way-out/x").is_err());
        assert!(top.create(b"link", 0o600, true).is_err());
        // A new file replaces the link.
        top.create(b"link", 0o600, false).unwrap();
        assert!(
            inside
                .path()
                .join("link")
                .symlink_metadata()
                .unwrap()
                .is_file()
        );
        let file = std::fs::read_to_string(outside.path().join("file")).unwrap();
        assert_eq!(file, "untouched");
    }

    #[test]
    fn a_finished_file_takes_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let top = TargetDirectory::open_top(directory.path()).unwrap();
        top.create(b"a", 0o600, false).unwrap();
        top.link(&top, b"a", b"b").unwrap();
        top.rename_link(b"a", b"b").unwrap();
        assert_eq!(top.look(b"a").unwrap(), None);
        assert_eq!(top.look(b"b").unwrap().unwrap().kind, FileType::RegularFile);
        top.make(b"d", true).unwrap();
        top.create(b"a", 0o600, false).unwrap();
        assert!(top.rename(b"a", b"d").is_err(), "a directory is in the way");
    }
}
