//! A directory of this machine as a tree: for measurements, trials and tests.
//!
//! The kernel resolves each path below the directory's descriptor and refuses what would lead out
//! of it, links included (`openat2`). What the page cache has is read without waiting, where the
//! file system can do that (`preadv2` with `RWF_NOWAIT`).
//!
//! Its entity tags are made of the time and size, so that they are strong only as far as the file
//! system's clock is fine enough.

use crate::tree::{Entry, EntryKind, File, Found, Purpose, Resolved, Tree, TreeError};
use bytes::Bytes;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::{Errno, ReadWriteFlags};
use std::ffi::OsStr;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A directory.
#[derive(Debug)]
pub struct DirectoryTree(OwnedFd);

impl DirectoryTree {
    /// # Errors
    /// It cannot be opened as a directory.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// What a path names that leads over links.
    fn find_by_links(&self, path: &[Vec<u8>]) -> Resolved {
        match self.linked(path) {
            Ok(linked) => Resolved {
                found: self.look(path, ResolveFlags::empty()).map_err(error),
                linked,
            },
            Err(errno) => Resolved::directly(Err(error(errno))),
        }
    }

    /// The names below the directory at which links lead to something.
    fn linked(&self, path: &[Vec<u8>]) -> Result<Arc<[Vec<u8>]>, Errno> {
        let mut name = PathBuf::from(".");
        name.extend(path.iter().map(|part| OsStr::from_bytes(part)));
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let file = rustix::fs::openat2(&self.0, &name, flags, Mode::empty(), how)?;
        let (file, root) = (place_of(&file), place_of(&self.0));
        let (file, root) = file
            .and_then(|file| Ok((file, root?)))
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let below = file.strip_prefix(root).map_err(|_| Errno::XDEV)?;
        let names = below.iter().map(|name| name.as_bytes().to_vec());
        Ok(names.collect())
    }

    fn look(&self, path: &[Vec<u8>], how: ResolveFlags) -> Result<Found, Errno> {
        let mut name = PathBuf::from(".");
        name.extend(path.iter().map(|part| OsStr::from_bytes(part)));
        // Opening a pipe must not wait for its other end.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let how = how | ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let file = rustix::fs::openat2(&self.0, &name, flags, Mode::empty(), how)?;
        let stat = rustix::fs::fstat(&file)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Found::File(Arc::new(OpenFile {
                size: u64::try_from(stat.st_size).unwrap_or(0),
                modified: modified(&stat),
                file,
            }))),
            FileType::Directory => Ok(Found::Directory {
                modified: modified(&stat),
            }),
            _ => Err(Errno::NOENT),
        }
    }
}

/// Where an open file is, as the kernel calls it.
fn place_of(file: &OwnedFd) -> std::io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn modified(stat: &Stat) -> SystemTime {
    let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
    let nanoseconds = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
    UNIX_EPOCH + Duration::new(seconds, nanoseconds.min(999_999_999))
}

fn error(errno: Errno) -> TreeError {
    match errno {
        // A link that leads out of the directory is EXDEV, circles are ELOOP.
        Errno::NOENT | Errno::NOTDIR | Errno::XDEV | Errno::LOOP | Errno::NAMETOOLONG => {
            TreeError::NotFound
        }
        // What the device behind a special file says.
        Errno::NXIO | Errno::NODEV => TreeError::NotFound,
        Errno::ACCESS | Errno::PERM => TreeError::Forbidden,
        Errno::MFILE | Errno::NFILE => TreeError::Unavailable(errno.to_string()),
        errno => TreeError::Storage(errno.to_string()),
    }
}

impl Tree for DirectoryTree {
    fn find_cached(&self, path: &[Vec<u8>]) -> Option<Resolved> {
        match self.look(path, ResolveFlags::CACHED | ResolveFlags::NO_SYMLINKS) {
            // With links, `find` looks where they lead.
            Err(Errno::AGAIN | Errno::LOOP) => None,
            found => Some(Resolved::directly(found.map_err(error))),
        }
    }

    fn find(&self, path: &[Vec<u8>]) -> Resolved {
        match self.look(path, ResolveFlags::NO_SYMLINKS) {
            Err(Errno::LOOP) => self.find_by_links(path),
            found => Resolved::directly(found.map_err(error)),
        }
    }

    fn list(&self, path: &[Vec<u8>], each: &mut dyn FnMut(Entry) -> bool) -> Result<(), TreeError> {
        let mut name = PathBuf::from(".");
        name.extend(path.iter().map(|part| OsStr::from_bytes(part)));
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let directory =
            rustix::fs::openat2(&self.0, &name, flags, Mode::empty(), how).map_err(error)?;
        let entries = rustix::fs::Dir::read_from(&directory).map_err(error)?;
        for entry in entries {
            let entry = entry.map_err(error)?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            let stat = match rustix::fs::statat(directory.as_fd(), entry.file_name(), flags) {
                Ok(stat) => stat,
                // It was removed since.
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(error(errno)),
            };
            let kind = match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => EntryKind::Directory,
                FileType::RegularFile => EntryKind::File,
                FileType::Symlink => EntryKind::Link,
                _ => EntryKind::Other,
            };
            let size = match kind {
                EntryKind::File => u64::try_from(stat.st_size).unwrap_or(0),
                _ => 0,
            };
            let name = name.to_vec();
            let modified = modified(&stat);
            if !each(Entry {
                name,
                kind,
                size,
                modified,
            }) {
                break;
            }
        }
        Ok(())
    }
}

struct OpenFile {
    file: OwnedFd,
    size: u64,
    modified: SystemTime,
}

impl OpenFile {
    fn read_with(&self, offset: u64, length: usize, flags: ReadWriteFlags) -> Result<Bytes, Errno> {
        let mut bytes = vec![0; length];
        let mut count = 0;
        while count < length {
            let mut space = [IoSliceMut::new(&mut bytes[count..])];
            let at = offset + count as u64;
            match rustix::io::preadv2(&self.file, &mut space, at, flags) {
                Ok(0) => break,
                Ok(read) => count += read,
                Err(Errno::INTR) => {}
                Err(_) if count > 0 => break,
                Err(errno) => return Err(errno),
            }
        }
        bytes.truncate(count);
        Ok(bytes.into())
    }
}

impl File for OpenFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn modified(&self) -> SystemTime {
        self.modified
    }

    fn entity_tag(&self) -> String {
        let (time, size) = match rustix::fs::fstat(&self.file) {
            Ok(stat) => (modified(&stat), stat.st_size as u64),
            Err(_) => (self.modified, self.size),
        };
        let time = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        format!("{:x}-{size:x}", time.as_nanos())
    }

    fn read_cached(&self, offset: u64, length: usize) -> Vec<Bytes> {
        match self.read_with(offset, length, ReadWriteFlags::NOWAIT) {
            Ok(bytes) if !bytes.is_empty() => vec![bytes],
            // On an error, a read that may wait reports it.
            _ => Vec::new(),
        }
    }

    fn read(&self, offset: u64, length: usize, _: Purpose) -> Result<Vec<Bytes>, TreeError> {
        let bytes = self.read_with(offset, length, ReadWriteFlags::empty());
        bytes.map(|bytes| vec![bytes]).map_err(error)
    }
}
