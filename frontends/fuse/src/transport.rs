//! The channel to the kernel: `/dev/fuse`.
//!
//! One `readv` receives one whole request, one `writev` sends one whole answer. A cloned
//! descriptor is a second door to the same connection; each worker has its own, so that answers do
//! not contend on one descriptor's bookkeeping. A transport over io_uring will stand beside
//! [`Device`].

mod calls;

pub(crate) use calls::{unshare_directory, unshare_user_and_mounts};

use crate::lookout::Lookout;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io::{IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// What came from the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// A request of this many bytes.
    Request(usize),
    /// The file system is unmounted or the connection was aborted.
    Ended,
}

/// An open `/dev/fuse`.
#[derive(Debug)]
pub(crate) struct Device {
    descriptor: OwnedFd,
    /// Its status flags are its own, not shared with a duplicate.
    is_separate: bool,
    /// Receiving does not wait.
    is_nonblocking: AtomicBool,
}

impl Device {
    /// Opens the device node; it belongs to no mount yet.
    pub fn open(path: &Path) -> Result<Device, Errno> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Device::from_descriptor(descriptor))
    }

    /// Takes over a descriptor that a helper has mounted with.
    pub fn from_descriptor(descriptor: OwnedFd) -> Device {
        Device {
            descriptor,
            is_separate: false,
            is_nonblocking: AtomicBool::new(false),
        }
    }

    /// The descriptor, for the mount call's `fd=` option.
    pub fn descriptor(&self) -> &OwnedFd {
        &self.descriptor
    }

    /// Another descriptor of the same connection, or a duplicate where the kernel has no clones.
    pub fn another(&self, path: &Path) -> Result<Device, Errno> {
        match self.clone_connection(path) {
            Ok(device) => Ok(device),
            Err(_) => {
                let duplicate = rustix::io::fcntl_dupfd_cloexec(&self.descriptor, 3)?;
                Ok(Device::from_descriptor(duplicate))
            }
        }
    }

    fn clone_connection(&self, path: &Path) -> Result<Device, Errno> {
        let mut fresh = Device::open(path)?;
        fresh.is_separate = true;
        calls::join_connection(&fresh.descriptor, &self.descriptor)?;
        Ok(fresh)
    }

    /// Waits for the next request, whose bytes go to `pieces`, one after the other. Looks out for
    /// it at first if there is a `lookout`.
    pub fn receive(
        &self,
        pieces: &mut [IoSliceMut<'_>],
        lookout: Option<&mut Lookout>,
    ) -> Result<Received, Errno> {
        let mut read = || match rustix::io::readv(&self.descriptor, pieces) {
            Ok(length) => Some(Ok(Received::Request(length))),
            // ENOENT: the request was taken back before it reached us.
            Err(Errno::INTR | Errno::NOENT | Errno::AGAIN) => None,
            Err(Errno::NODEV | Errno::CONNABORTED) => Some(Ok(Received::Ended)),
            Err(error) => Some(Err(error)),
        };
        if let Some(lookout) = lookout
            && self.is_separate
        {
            self.set_nonblocking(true)?;
            if let Some(received) = lookout.look(&mut read) {
                return received;
            }
        }
        self.set_nonblocking(false)?;
        loop {
            if let Some(received) = read() {
                return received;
            }
        }
    }

    fn set_nonblocking(&self, wanted: bool) -> Result<(), Errno> {
        if self.is_nonblocking.load(Ordering::Relaxed) == wanted {
            return Ok(());
        }
        let mut flags = OFlags::RDWR;
        flags.set(OFlags::NONBLOCK, wanted);
        rustix::fs::fcntl_setfl(&self.descriptor, flags)?;
        self.is_nonblocking.store(wanted, Ordering::Relaxed);
        Ok(())
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

    /// Like [`send`](Self::send), but returns an error if the kernel does not know the node or
    /// name.
    pub fn notify(&self, pieces: &[IoSlice<'_>]) -> Result<(), Errno> {
        rustix::io::writev(&self.descriptor, pieces).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;
    use std::time::Duration;

    /// A request is received whether it comes during polling or later, and the wait after polling
    /// sleeps.
    #[test]
    fn a_request_is_received_in_time_or_later() {
        let (kernel, ours) = UnixDatagram::pair().expect("a pair of sockets");
        let mut device = Device::from_descriptor(ours.into());
        device.is_separate = true;
        let mut lookout = Lookout::new();
        let mut buffer = [0; 64];
        let mut receive = |lookout: Option<&mut Lookout>| {
            device.receive(&mut [IoSliceMut::new(&mut buffer)], lookout)
        };
        kernel.send(b"soon").expect("room for one");
        assert_eq!(receive(Some(&mut lookout)), Ok(Received::Request(4)));
        assert!(device.is_nonblocking.load(Ordering::Relaxed));
        for lookout in [Some(&mut lookout), None] {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(30));
                    kernel.send(b"later").expect("room for one");
                });
                assert_eq!(receive(lookout), Ok(Received::Request(5)));
            });
            assert!(!device.is_nonblocking.load(Ordering::Relaxed));
        }
    }
}
