//! Block devices of this machine's kernel, `/dev/ublkbN`, that a program serves.
//!
//! *The problem.* Programs of this machine want a volume as a block device: `mkfs`, `mount`,
//! virtual machines. Over NBD that takes another program or module, a socket, and a copy more.
//!
//! *The idea.* Linux has a driver for it, `ublk_drv`: the kernel hands requests over through an
//! `io_uring`. The library `libublk` speaks with it, and this crate puts a [`BlockDevice`] behind.
//! It does not depend on ZFS.
//!
//! *Promises.* A flush that was answered covers every write that was answered before, and a write
//! with FUA is durable when it is answered. One request that waits holds up no other. When the
//! process dies, the kernel keeps the device and its requests: another process takes it over with
//! [`KernelDevice::recover`], and the requests are issued again.
//!
//! *Unflushed writes* that a process answered before it died may be lost with it. [`Gate`] keeps
//! them in a journal ([`Unflushed`]), whose files outlive the process ([`Kept`]). The next process
//! replays them.
//!
//! *Deliberately absent*: devices for users other than root (in the driver's unprivileged mode, any
//! user that can open two nodes gets the device, and the kernel trusts that user's answers); zero
//! copy, which ends at a cache whose blocks are compressed on disk; zoned devices.
//!
//! [`BlockDevice`]: cenote_nbd::BlockDevice

#![forbid(unsafe_code)]

#[cfg(not(feature = "ublk"))]
mod absent;
#[cfg(test)]
mod death_tests;
#[cfg(feature = "ublk")]
mod device;
mod error;
mod gate;
mod kept;
#[cfg(feature = "ublk")]
mod kernel;
mod options;
#[cfg(feature = "ublk")]
mod parameters;
mod private;
#[cfg(feature = "ublk")]
mod queue;
#[cfg(feature = "ublk")]
mod records;
#[cfg(feature = "ublk")]
mod request;
mod support;
mod unflushed;
#[cfg(feature = "ublk")]
mod users;
#[cfg(feature = "ublk")]
mod workers;

#[cfg(not(feature = "ublk"))]
pub use absent::{KernelDevice, left_devices, remove_left};
#[cfg(feature = "ublk")]
pub use device::{KernelDevice, left_devices, remove_left};
pub use error::UblkError;
pub use gate::{Gate, Lasting};
pub use kept::{Kept, Place, Segment};
pub use options::{Counters, DeviceOptions, LeftDevice, QUEUE_DEPTH_DEFAULT};
pub use support::check;
pub use unflushed::{Change, Unflushed};
