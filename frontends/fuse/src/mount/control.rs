//! The FUSE control file system: one directory per connection, named by the device's minor number.
//!
//! Writing to its `abort` file ends a connection however many files are open on it and wherever its
//! mounts are. It usually lies at `/sys/fs/fuse/connections`; if it is not mounted, root can use it
//! through a detached mount.

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// Ends the connection whose superblock has this minor device number.
pub(super) fn abort(minor: u32) -> Result<(), Errno> {
    let file = abort_handle(minor)?;
    rustix::io::write(&file, b"1").map(|_| ())
}

/// The file that ends a connection when something is written to it. It means that connection for
/// as long as it is open: later ones may have its number.
pub fn abort_handle(minor: u32) -> Result<OwnedFd, Errno> {
    let usual = format!("/sys/fs/fuse/connections/{minor}/abort");
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::open(usual, flags, Mode::empty()).or_else(|_| {
        let root = detached()?;
        rustix::fs::openat(&root, format!("{minor}/abort"), flags, Mode::empty())
    })
}

/// The control file system's root, mounted nowhere.
fn detached() -> Result<OwnedFd, Errno> {
    let context = fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let no_attributes = MountAttrFlags::empty();
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, no_attributes)
}
