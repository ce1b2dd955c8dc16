//! Sets the owner, attributes, mode and times of a copy.
//!
//! The order matters. Changing the owner clears set-user-id bits, an access control list changes
//! the mode, and all of them change the time of the last change.

use super::target::TargetDirectory;
use crate::reading::session::OpenFileSystem;
use cenote_posix::{FileKind, PosixError, Stat, Timestamp, Znode};
use rustix::fs::{AtFlags, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Prefixes of attributes that only root may set.
const PRIVILEGED: [&[u8]; 2] = [b"trusted.", b"security."];

/// The attributes that a copy lost.
#[derive(Debug, Default)]
pub struct Losses {
    /// The owner, for lack of privilege.
    pub owner: bool,
    /// Number of attributes lost for lack of privilege.
    pub privileged: u64,
    /// Other attributes: name and reason.
    pub refused: Vec<(Vec<u8>, io::Error)>,
    /// Attributes that could not be read from the pool.
    pub unreadable: Option<PosixError>,
}

fn is_refusal(error: Errno) -> bool {
    matches!(error, Errno::PERM | Errno::ACCESS)
}

fn timespec(time: Timestamp) -> Timespec {
    Timespec {
        tv_sec: time.seconds,
        tv_nsec: time.nanoseconds.into(),
    }
}

/// Sets the attributes of `znode` on `name` in `directory`.
pub fn apply(
    open: &OpenFileSystem,
    znode: &Znode,
    directory: &TargetDirectory,
    name: &[u8],
) -> io::Result<Losses> {
    let stat = open.files.stat(znode);
    let mut losses = Losses::default();
    let handle = directory.handle(name)?;
    set_owner(&stat, directory, name, &mut losses)?;
    // The handle refers to the file itself, even to a link, so this path cannot lead elsewhere.
    let path = format!("/proc/self/fd/{}", handle.as_fd().as_raw_fd());
    set_xattrs(open, znode, &path, &mut losses);
    if stat.kind != FileKind::Symlink {
        let bits = match losses.owner {
            // A set-user-id program of another owner must not run with this user's rights.
            true => stat.mode & 0o1777,
            false => stat.mode & 0o7777,
        };
        rustix::fs::chmod(path.as_str(), Mode::from_raw_mode(bits.into()))?;
    }
    let times = Timestamps {
        last_access: timespec(stat.accessed),
        last_modification: timespec(stat.modified),
    };
    rustix::fs::utimensat(directory, name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(losses)
}

fn set_owner(
    stat: &Stat,
    directory: &TargetDirectory,
    name: &[u8],
    losses: &mut Losses,
) -> io::Result<()> {
    let (uid, gid) = (stat.uid.posix_id(), stat.gid.posix_id());
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let user = Some(Uid::from_raw(uid));
    let group = Some(Gid::from_raw(gid));
    match rustix::fs::chownat(directory, name, user, group, flags) {
        Ok(()) => Ok(()),
        Err(error) if is_refusal(error) || error == Errno::INVAL => {
            losses.owner = true;
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

fn set_xattrs(open: &OpenFileSystem, znode: &Znode, path: &str, losses: &mut Losses) {
    let names = match open.files.xattr_names(znode) {
        Ok(names) => names,
        Err(error) => {
            losses.unreadable = Some(error);
            return;
        }
    };
    for name in names {
        let value = match open.files.require_xattr(znode, &name) {
            Ok(value) => value,
            Err(error) => {
                losses.unreadable = Some(error);
                continue;
            }
        };
        let needs_privilege = PRIVILEGED.iter().any(|prefix| name.starts_with(prefix));
        match rustix::fs::setxattr(path, name.as_slice(), &value, XattrFlags::empty()) {
            Ok(()) => {}
            Err(error) if is_refusal(error) && needs_privilege => losses.privileged += 1,
            Err(error) => losses.refused.push((name, error.into())),
        }
    }
}
