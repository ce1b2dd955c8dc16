//! A mount held by its root directory, so that it stays the same even if its path leads elsewhere.
//!
//! Between checking a mount and unmounting it, its path may get another mount: the owner has
//! replaced the dead mount. So an unmount first opens the root (`O_PATH`, which needs no server),
//! checks that, and unmounts that.

use super::table::MountEntry;
use cenote_base::rt;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, UnmountFlags};
use std::path::Path;
use std::time::Duration;

/// A server that takes longer than this to answer `statfs` is alive, only slow.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// The root of a mount.
#[derive(Debug)]
pub(super) struct HeldMount(OwnedFd);

impl HeldMount {
    /// The mount that is on top at a place.
    pub fn at(place: &Path) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::open(place, flags, Mode::empty()).map(Self)
    }

    /// Its number in the kernel's table.
    pub fn id(&self) -> Result<u64, Errno> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let found = rustix::fs::statx(&self.0, "", flags, StatxFlags::MNT_ID)?;
        Ok(found.stx_mnt_id)
    }

    /// Its superblock's device.
    pub fn device(&self) -> Result<(u32, u32), Errno> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let found = rustix::fs::statx(&self.0, "", flags, StatxFlags::MNT_ID)?;
        Ok((found.stx_dev_major, found.stx_dev_minor))
    }

    /// Whether its server has ended, which is permanent. May wait for a server that is stuck.
    fn is_dead(&self) -> bool {
        // A plain `stat` may be answered from the kernel's cache; this is asked always.
        rustix::fs::fstatfs(&self.0).is_err_and(|error| error == Errno::NOTCONN)
    }

    /// Takes it out of the tree, and nothing else, whether or not files on it are open.
    pub fn detach(&self, flags: UnmountFlags) -> Result<(), Errno> {
        let path = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        rustix::mount::unmount(path, flags | UnmountFlags::DETACH)
    }
}

/// What is found where the table says that a mount is.
#[derive(Debug)]
pub(super) enum Probed {
    /// It, and its server is gone.
    Dead(HeldMount),
    /// It, and it may be served.
    Live,
    /// Something else, or nothing: no path leads to it.
    Unreachable,
}

/// Looks at the mount of a line of the table.
pub(super) fn probe(entry: &MountEntry) -> Probed {
    let (place, id) = (entry.mount_point.clone(), entry.id);
    let (sender, receiver) = rt::sync_channel(1);
    // A thread of its own, because a stuck server would block the caller for ever.
    let probe = rt::spawn("fuse-probe", move || {
        let held = HeldMount::at(&place).ok();
        let probed = match held.filter(|held| held.id() == Ok(id)) {
            None => Probed::Unreachable,
            Some(held) if held.is_dead() => Probed::Dead(held),
            Some(_) => Probed::Live,
        };
        // The receiver may have timed out; then the outcome is not needed.
        let _ = sender.send(probed);
    });
    let probed = probe.map(|_| receiver.recv_timeout(PROBE_TIMEOUT));
    probed.map_or(Probed::Live, |probed| probed.unwrap_or(Probed::Live))
}

/// Mounts a FUSE connection beneath the mount that is on top at a place: when the upper one is
/// unmounted, the place switches directly to the new one, and never shows the directory below both.
///
/// # Errors
/// `ENOSYS` or `EINVAL` before Linux 6.5, or where the tree does not allow it.
pub(super) fn mount_beneath(
    place: &Path,
    parameters: &[(&str, String)],
    flags: MountAttrFlags,
) -> Result<(), Errno> {
    let context = rustix::mount::fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in parameters {
        match value.as_str() {
            "" => rustix::mount::fsconfig_set_flag(&context, *name)?,
            value => rustix::mount::fsconfig_set_string(&context, *name, value)?,
        }
    }
    rustix::mount::fsconfig_create(&context)?;
    let mount = rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_BENEATH;
    rustix::mount::move_mount(&mount, "", CWD, place, flags)
}
