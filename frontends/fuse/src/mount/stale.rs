//! Mounts whose server died: finding them and clearing them away.
//!
//! When a server is killed the kernel keeps its mount, and every access fails with ENOTCONN
//! ("Transport endpoint is not connected"). A plain `stat` may still be answered from the kernel's
//! cache, so the question has to be one that always reaches the server: `statfs`.

use super::table::{MountEntry, own_mounts};
use super::{MountError, helper};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// A server that takes longer than this to answer `statfs` is alive, only slow.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Whether the mount's server is gone. `false` when in doubt.
pub fn is_stale(entry: &MountEntry) -> bool {
    let path = entry.mount_point.clone();
    let (sender, receiver) = mpsc::sync_channel(1);
    // A thread of its own, because a stuck server would block the caller for ever.
    let probe = std::thread::Builder::new()
        .name("fuse-probe".into())
        .spawn(move || {
            let outcome = rustix::fs::statfs(&path).map(|_| ());
            // The receiver may have given up; then nobody needs the outcome.
            let _ = sender.send(outcome);
        });
    probe.is_ok() && receiver.recv_timeout(PROBE_TIMEOUT) == Ok(Err(Errno::NOTCONN))
}

/// What became of dead mounts.
#[derive(Debug, Default)]
pub struct ClearedMounts {
    /// Mount points that are free again, deepest first.
    pub cleared: Vec<PathBuf>,
    /// Those that resisted, mostly because another user made them.
    pub failed: Vec<(PathBuf, MountError)>,
}

/// Unmounts every mount of Cenote at or below `prefix` whose server is gone.
pub fn clear_stale_mounts(prefix: &Path) -> Result<ClearedMounts, MountError> {
    let mut outcome = ClearedMounts::default();
    let entries = own_mounts().map_err(MountError::Table)?;
    // Later mounts may hide or lie below earlier ones, so the last goes first.
    for entry in entries.iter().rev() {
        if entry.mount_point.starts_with(prefix) && is_stale(entry) {
            match detach(&entry.mount_point) {
                Ok(()) => outcome.cleared.push(entry.mount_point.clone()),
                Err(error) => outcome.failed.push((entry.mount_point.clone(), error)),
            }
        }
    }
    if !outcome.failed.is_empty() {
        // What lies below a dead mount cannot be reached, and is gone with it.
        let left = own_mounts().map_err(MountError::Table)?;
        let is_left = |place: &Path| left.iter().any(|entry| entry.mount_point == *place);
        outcome.failed.retain(|(place, _)| is_left(place));
    }
    Ok(outcome)
}

/// Clears dead mounts exactly at `mount_point`, which may lie on top of each other.
pub(super) fn clear_at(mount_point: &Path) -> Result<(), MountError> {
    let entries = own_mounts().map_err(MountError::Table)?;
    for entry in entries
        .iter()
        .rev()
        .filter(|entry| entry.mount_point == mount_point)
    {
        if !is_stale(entry) {
            break;
        }
        detach(mount_point)?;
    }
    Ok(())
}

/// Takes a mount out of the tree whether or not files on it are open.
fn detach(mount_point: &Path) -> Result<(), MountError> {
    let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
    match rustix::mount::unmount(mount_point, flags) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => {
            helper::unmount(mount_point, true).unwrap_or(Err(MountError::NotPermitted))
        }
        Err(error) => Err(MountError::Unmount {
            mount_point: mount_point.to_owned(),
            source: error,
        }),
    }
}
