//! The channel to the kernel: `/dev/fuse`.
//!
//! One `read` or `readv` receives one whole request, one `writev` sends one whole answer. A cloned
//! descriptor is a second door to the same connection; each worker has its own, so that answers do
//! not contend on one descriptor's bookkeeping. A transport over io_uring will stand beside
//! [`Device`].

mod calls;

pub(crate) use calls::unshare_user_and_mounts;

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io::{IoSlice, IoSliceMut};
use std::path::Path;

/// What came from the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// A request of so many bytes.
    Request(usize),
    /// The file system is unmounted or the connection was aborted.
    Ended,
}

/// An open `/dev/fuse`.
#[derive(Debug)]
pub(crate) struct Device {
    descriptor: OwnedFd,
}

impl Device {
    /// Opens the device node; it belongs to no mount yet.
    pub fn open(path: &Path) -> Result<Device, Errno> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        Ok(Device {
            descriptor: rustix::fs::open(path, flags, Mode::empty())?,
        })
    }

    /// Takes over a descriptor that a helper has mounted with.
    pub fn from_descriptor(descriptor: OwnedFd) -> Device {
        Device { descriptor }
    }

    /// The descriptor, for the mount call's `fd=` option.
    pub fn descriptor(&self) -> &OwnedFd {
        &self.descriptor
    }

    /// Another descriptor of the same connection, or a duplicate where the kernel has no clones.
    pub fn another(&self, path: &Path) -> Result<Device, Errno> {
        match self.clone_connection(path) {
            Ok(device) => Ok(device),
            Err(_) => Ok(Device {
                descriptor: rustix::io::fcntl_dupfd_cloexec(&self.descriptor, 3)?,
            }),
        }
    }

    fn clone_connection(&self, path: &Path) -> Result<Device, Errno> {
        let fresh = Device::open(path)?;
        calls::join_connection(&fresh.descriptor, &self.descriptor)?;
        Ok(fresh)
    }

    /// Waits for the next request.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Received, Errno> {
        self.receive_by(|descriptor| rustix::io::read(descriptor, &mut *buffer))
    }

    /// Waits for the next request, whose bytes go to `pieces`, one after the other.
    pub fn receive_pieces(&self, pieces: &mut [IoSliceMut<'_>]) -> Result<Received, Errno> {
        self.receive_by(|descriptor| rustix::io::readv(descriptor, pieces))
    }

    fn receive_by(
        &self,
        mut read: impl FnMut(&OwnedFd) -> Result<usize, Errno>,
    ) -> Result<Received, Errno> {
        loop {
            match read(&self.descriptor) {
                Ok(length) => return Ok(Received::Request(length)),
                // ENOENT: the request was taken back before it reached us.
                Err(Errno::INTR | Errno::NOENT | Errno::AGAIN) => continue,
                Err(Errno::NODEV | Errno::CONNABORTED) => return Ok(Received::Ended),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends an answer or notification. The caller that no longer waits (ENOENT) is no error.
    pub fn send(&self, pieces: &[IoSlice<'_>]) -> Result<(), Errno> {
        loop {
            match rustix::io::writev(&self.descriptor, pieces) {
                Ok(_) | Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED) => return Ok(()),
                Err(Errno::INTR | Errno::AGAIN) => continue,
                Err(error) => return Err(error),
            }
        }
    }

    /// Like [`send`](Self::send), but says when the kernel does not know what is meant.
    pub fn notify(&self, pieces: &[IoSlice<'_>]) -> Result<(), Errno> {
        rustix::io::writev(&self.descriptor, pieces).map(|_| ())
    }
}
