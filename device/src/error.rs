//! What can go wrong with a device; every variant names the device's path.

use rustix::io::Errno;
use std::io;
use std::path::PathBuf;

/// A device did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The path cannot be opened or examined.
    #[error("{}: cannot open: {source}", path.display())]
    Open {
        /// The device's path.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The path is neither a regular file nor a block device.
    #[error("{}: neither a regular file nor a block device", path.display())]
    NotADevice {
        /// The path.
        path: PathBuf,
    },
    /// Another program has the device open for writing, or it is mounted.
    #[error("{}: in use by another program, or mounted", path.display())]
    InUse {
        /// The device's path.
        path: PathBuf,
    },
    /// A read failed.
    #[error("{}: reading {length} bytes at {offset:#x}: {source}", path.display())]
    Read {
        /// The device's path.
        path: PathBuf,
        /// Where the read began, in bytes.
        offset: u64,
        /// How many bytes were wanted.
        length: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// The device ended before the read was complete.
    #[error("{}: {got} of {wanted} bytes read at {offset:#x}", path.display())]
    ShortRead {
        /// The device's path.
        path: PathBuf,
        /// Where the read began, in bytes.
        offset: u64,
        /// Bytes wanted.
        wanted: u64,
        /// Bytes that were there.
        got: u64,
    },
    /// The range lies outside the device.
    #[error("{}: {length} bytes at {offset:#x} reach beyond the size {size:#x}", path.display())]
    OutOfRange {
        /// The device's path.
        path: PathBuf,
        /// Where the range begins, in bytes.
        offset: u64,
        /// Its length in bytes.
        length: u64,
        /// The device's size in bytes.
        size: u64,
    },
    /// The device was opened for reading only.
    #[error("{}: opened read-only", path.display())]
    ReadOnly {
        /// The device's path.
        path: PathBuf,
    },
    /// A write failed.
    #[error("{}: writing {length} bytes at {offset:#x}: {source}", path.display())]
    Write {
        /// The device's path.
        path: PathBuf,
        /// Where the write began, in bytes.
        offset: u64,
        /// How many bytes were to be written.
        length: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// Flushing the device's write cache failed.
    #[error("{}: flush: {source}", path.display())]
    Flush {
        /// The device's path.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Discarding a range failed.
    #[error("{}: discarding {length} bytes at {offset:#x}: {source}", path.display())]
    Discard {
        /// The device's path.
        path: PathBuf,
        /// Where the range begins, in bytes.
        offset: u64,
        /// Its length in bytes.
        length: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// A directory cannot be listed.
    #[error("{}: cannot list: {source}", path.display())]
    List {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A directory holds more entries than a device search takes.
    #[error("{}: more than {limit} entries, name the devices instead", path.display())]
    TooManyEntries {
        /// The directory.
        path: PathBuf,
        /// The limit.
        limit: usize,
    },
}

impl DeviceError {
    /// Whether the device answers, and says itself that it does not have what was written.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Read { source, .. } if source.kind() == io::ErrorKind::InvalidData)
    }

    /// Whether no process may open the device for writing: its file system is read-only, this user
    /// lacks the permission, or the medium takes no writes. Reading may work.
    pub fn is_unwritable(&self) -> bool {
        let Self::Open { source, .. } = self else {
            return false;
        };
        let errors = [Errno::ROFS, Errno::ACCESS, Errno::PERM, Errno::IO];
        let found = source.raw_os_error();
        errors
            .iter()
            .any(|error| found == Some(error.raw_os_error()))
    }

    /// The system's error behind this one, for callers that map it to an errno.
    pub fn io_error(&self) -> Option<&io::Error> {
        match self {
            Self::Open { source, .. }
            | Self::Read { source, .. }
            | Self::Write { source, .. }
            | Self::Flush { source, .. }
            | Self::Discard { source, .. }
            | Self::List { source, .. } => Some(source),
            _ => None,
        }
    }
}
