//! Why a device of the kernel cannot be had.

use std::io;
use std::path::PathBuf;

/// Why something could not be done with a device of the kernel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UblkError {
    /// The cargo feature is off.
    #[error(
        "this program was built without ublk. Build it with the cargo feature 'ublk', or serve \
         the volume over NBD"
    )]
    NotBuilt,
    /// There is no `/dev/ublk-control`.
    #[error(
        "this kernel has no ublk driver: /dev/ublk-control does not exist. Run 'modprobe \
         ublk_drv'. It needs Linux 6.5 or newer with CONFIG_BLK_DEV_UBLK; without it, serve the \
         volume over NBD"
    )]
    NoDriver,
    /// The driver lacks something that is needed.
    #[error(
        "the ublk driver of this kernel is too old: it cannot {0}. It needs Linux 6.5 or newer; \
         until then, serve the volume over NBD"
    )]
    TooOld(&'static str),
    /// The user may not.
    #[error("{path} cannot be opened: permission denied. Devices of ublk are for root only")]
    NotPermitted {
        /// What may not be opened.
        path: PathBuf,
    },
    /// The administrator has switched `io_uring` off.
    #[error(
        "io_uring is forbidden on this machine (sysctl kernel.io_uring_disabled={value}), and \
         ublk works through it. Run 'sysctl kernel.io_uring_disabled=0', or serve the volume \
         over NBD"
    )]
    IoUringForbidden {
        /// What the setting is.
        value: u8,
    },
    /// `io_uring` does not work for another reason, for example a filter of system calls.
    #[error(
        "io_uring does not work here ({source}), and ublk works through it. A container or a \
         service may forbid it with a filter of system calls"
    )]
    NoIoUring {
        /// What the kernel said.
        source: io::Error,
    },
    /// An option or a size that no device can have.
    #[error("{0}")]
    Invalid(String),
    /// The device is in use.
    #[error(
        "/dev/ublkb{number} is in use: {user}. Unmount it or end that program first, or stop \
         the device by force, which fails the requests of its users"
    )]
    InUse {
        /// The number of the device.
        number: u32,
        /// Its user: a mount, a device or a program.
        user: String,
    },
    /// The device has been stopped.
    #[error("/dev/ublkb{number} has been stopped")]
    Stopped {
        /// The number that the device had.
        number: u32,
    },
    /// Another process serves the device, or it is gone.
    #[error("/dev/ublkb{number} was not left by a dead process: {why}")]
    NotLeft {
        /// The number of the device.
        number: u32,
        /// What it is instead.
        why: String,
    },
    /// The kernel cannot change the size of a device in use.
    #[error(
        "this kernel cannot resize /dev/ublkb{number} while it exists (Linux 6.16 and newer \
         can). Unmount it, stop the device and start it again: it then has the new size"
    )]
    CannotResize {
        /// The number of the device.
        number: u32,
    },
    /// What is kept about devices could not be read or written.
    #[error("{path}: {source}")]
    Record {
        /// The file or directory.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// The driver refused a command.
    #[error("the ublk driver could not {what}: {source}")]
    Kernel {
        /// What it was to do.
        what: String,
        /// What it said.
        source: io::Error,
    },
    /// A thread or a descriptor could not be had.
    #[error("cannot {what}: {source}")]
    System {
        /// What was to be done.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}
