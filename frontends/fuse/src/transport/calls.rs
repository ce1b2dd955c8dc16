//! The three system calls that have no safe wrapper: this crate's only `unsafe`.
#![allow(unsafe_code)]

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::ioctl::{Setter, ioctl, opcode};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// `FUSE_DEV_IOC_CLONE`: `_IOR(229, 0, uint32_t)`, the argument being the other descriptor.
const CLONE: rustix::ioctl::Opcode = opcode::read::<u32>(229, 0);

/// Makes `fresh`, a newly opened `/dev/fuse`, a second door to `established`'s connection.
pub(super) fn join_connection(fresh: &OwnedFd, established: &OwnedFd) -> Result<(), Errno> {
    let master = established.as_raw_fd().cast_unsigned();
    // SAFETY: the opcode is the kernel's, which reads one u32 through the pointer and touches no
    // other memory; `Setter` passes the address of its own copy of `master`.
    unsafe { ioctl(fresh, Setter::<CLONE, u32>::new(master)) }
}

/// Gives the calling process a user and a mount namespace of its own.
///
/// Fails with `EINVAL` when the process has more than one thread.
pub(crate) fn unshare_user_and_mounts() -> Result<(), Errno> {
    // SAFETY: the call is unsafe only for `UnshareFlags::FILES`, which would split the table of
    // descriptors between threads; it is not among the flags.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNS) }
}

/// Gives the calling thread a root and a working directory of its own, so that it alone can enter
/// another mount namespace.
pub(crate) fn unshare_directory() -> Result<(), Errno> {
    // SAFETY: as above, `UnshareFlags::FILES` is not among the flags.
    unsafe { unshare_unsafe(UnshareFlags::FS) }
}
