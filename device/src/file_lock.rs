//! Having a device for oneself.
//!
//! A device that is opened for writing is locked: a second program that does the same would
//! destroy the pool. Block devices are claimed from the kernel, which also keeps a mounted one
//! from being claimed; files carry an advisory lock that all of our programs respect.

use crate::DeviceError;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;

/// Gives the advisory lock back.
pub(crate) fn unlock(file: &File) {
    // It ends with the file at the latest.
    let _ = rustix::fs::flock(file, FlockOperation::Unlock);
}

/// Takes the advisory lock of a file that is to be written to, until it is closed.
pub(crate) fn lock(file: &File, path: &Path) -> Result<(), DeviceError> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        // A file system without locks: nothing can be known there.
        Ok(()) | Err(Errno::NOLCK | Errno::NOTSUP | Errno::NOSYS) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(DeviceError::InUse { path: path.into() }),
        Err(errno) => Err(DeviceError::Open {
            path: path.into(),
            source: errno.into(),
        }),
    }
}
