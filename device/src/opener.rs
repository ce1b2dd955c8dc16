//! Where devices come from.

use crate::{Device, DeviceError, FileDevice, FileOptions};
use std::fmt::Debug;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory with more entries than this is not searched.
const ENTRIES_MAX: usize = 65_536;

/// What a path in a directory is, for a device search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// A regular file and its size in bytes.
    File(u64),
    /// A block device.
    Block,
}

/// A regular file or block device in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Directory and name.
    pub path: PathBuf,
    /// What it is.
    pub kind: EntryKind,
}

/// Opens devices by path: the system's, or a simulated world's.
pub trait Opener: Debug + Send + Sync {
    /// Opens the device at `path`.
    fn open(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError>;

    /// Opens the device at `path` for writing too, and locks it: no other program may write to it
    /// until it is closed.
    ///
    /// # Errors
    /// [`DeviceError::InUse`] if another program writes to it; [`DeviceError::ReadOnly`] from an
    /// opener that only reads.
    fn open_writable(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        let path = path.into();
        Err(DeviceError::ReadOnly { path })
    }

    /// Two numbers that all names of one file or block device share: links, names below
    /// `/dev/disk`. `None` if this opener knows a device by its path only.
    fn identity(&self, _path: &Path) -> Option<(u64, u64)> {
        None
    }

    /// The files and block devices of a directory, sorted by path; `None` if `path` is none.
    ///
    /// Symbolic links are followed, subdirectories and everything else left out.
    fn list(&self, path: &Path) -> Result<Option<Vec<Entry>>, DeviceError>;
}

/// Opens files and block devices of the running system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemOpener {
    /// How devices are opened.
    pub options: FileOptions,
}

impl Opener for SystemOpener {
    fn open(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        Ok(Arc::new(FileDevice::open(path, self.options)?))
    }

    fn open_writable(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        let options = FileOptions {
            writable: true,
            ..self.options
        };
        Ok(Arc::new(FileDevice::open(path, options)?))
    }

    fn identity(&self, path: &Path) -> Option<(u64, u64)> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(match metadata.file_type().is_block_device() {
            // No file has this inode number.
            true => (metadata.rdev(), u64::MAX),
            false => (metadata.dev(), metadata.ino()),
        })
    }

    fn list(&self, path: &Path) -> Result<Option<Vec<Entry>>, DeviceError> {
        let fail = |source| DeviceError::List {
            path: path.into(),
            source,
        };
        let metadata = std::fs::metadata(path).map_err(|source| DeviceError::Open {
            path: path.into(),
            source,
        })?;
        if !metadata.is_dir() {
            return Ok(None);
        }
        let mut entries = Vec::new();
        for (index, entry) in std::fs::read_dir(path).map_err(fail)?.enumerate() {
            if index >= ENTRIES_MAX {
                return Err(DeviceError::TooManyEntries {
                    path: path.into(),
                    limit: ENTRIES_MAX,
                });
            }
            let path = entry.map_err(fail)?.path();
            // An entry that vanished or dangles is no device.
            let Ok(metadata) = std::fs::metadata(&path) else {
                continue;
            };
            let kind = match metadata.file_type() {
                kind if kind.is_file() => EntryKind::File(metadata.len()),
                kind if kind.is_block_device() => EntryKind::Block,
                _ => continue,
            };
            entries.push(Entry { path, kind });
        }
        entries.sort();
        Ok(Some(entries))
    }
}
