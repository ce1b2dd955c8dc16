//! Mounts whose server died: finding them and clearing them away.
//!
//! When a server is killed the kernel keeps its mount, and every access fails with ENOTCONN
//! ("Transport endpoint is not connected"). That is good: otherwise programs would write into the
//! directory below, and the next mount would hide these files. So a dead mount is removed only in
//! two cases. The next mount at the same place replaces it, in one step if the kernel can; or a
//! command names it. A daemon that starts leaves dead mounts alone.

use super::error::MountError;
use super::held::{HeldMount, Probed, probe};
use super::helper;
use super::table::{MountEntry, mounts, own_mounts};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::path::{Path, PathBuf};

/// Whether the mount's server is gone. `false` when in doubt.
pub fn is_stale(entry: &MountEntry) -> bool {
    matches!(probe(entry), Probed::Dead(_))
}

/// The places of dead mounts that a user made.
///
/// # Errors
/// The kernel's table cannot be read.
pub fn stale_mounts(owner: u32) -> Result<Vec<PathBuf>, MountError> {
    let mut entries = own_mounts().map_err(MountError::Table)?;
    entries.retain(|entry| entry.owner == Some(owner) && is_stale(entry));
    Ok(entries.into_iter().map(|entry| entry.mount_point).collect())
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
        if !entry.mount_point.starts_with(prefix) {
            continue;
        }
        if let Probed::Dead(held) = probe(entry) {
            let detached = check_alone(entry).and_then(|()| detach(held, &entry.mount_point));
            match detached {
                Ok(()) => outcome.cleared.push(entry.mount_point.clone()),
                Err(error) => outcome.failed.push((entry.mount_point.clone(), error)),
            }
        }
    }
    if !outcome.failed.is_empty() {
        // Mounts inside a dead mount cannot be reached, and disappear with it.
        let left = own_mounts().map_err(MountError::Table)?;
        let is_left = |place: &Path| left.iter().any(|entry| entry.mount_point == *place);
        outcome.failed.retain(|(place, _)| is_left(place));
    }
    Ok(outcome)
}

/// Clears dead mounts exactly at `mount_point`, which may lie on top of each other, but for the
/// last of them: it is returned, to be unmounted when its replacement is mounted.
pub(super) fn clear_at(mount_point: &Path) -> Result<Option<HeldMount>, MountError> {
    let entries = own_mounts().map_err(MountError::Table)?;
    let mut last: Option<HeldMount> = None;
    for entry in entries
        .iter()
        .rev()
        .filter(|entry| entry.mount_point == mount_point)
    {
        // A mount below can be checked only once the one above is unmounted.
        let is_below =
            |other: &MountEntry| other.parent == entry.id && other.mount_point == entry.mount_point;
        if let Some(above) = last.take_if(|_| entries.iter().any(is_below)) {
            detach(above, mount_point)?;
        }
        match probe(entry) {
            Probed::Dead(held) => {
                check_alone(entry)?;
                last = Some(held);
            }
            // Live, or another user's, or below such a mount.
            Probed::Live | Probed::Unreachable => break,
        }
    }
    Ok(last)
}

/// Refuses to take a dead mount away while something is mounted on it that can be used: it would
/// go along.
fn check_alone(dead: &MountEntry) -> Result<(), MountError> {
    let mut within = vec![dead.id];
    // In the table parents come before what is mounted on them.
    for entry in mounts().map_err(MountError::Table)? {
        if !within.contains(&entry.parent) {
            continue;
        }
        within.push(entry.id);
        if matches!(probe(&entry), Probed::Live) {
            return Err(MountError::InTheWay {
                mount_point: dead.mount_point.clone(),
                above: entry.mount_point,
            });
        }
    }
    Ok(())
}

/// Takes a dead mount out of the tree whether or not files on it are open.
pub(super) fn detach(held: HeldMount, mount_point: &Path) -> Result<(), MountError> {
    match held.detach(UnmountFlags::empty()) {
        Ok(()) => Ok(()),
        // Another process was faster.
        Err(Errno::INVAL) => Ok(()),
        Err(Errno::PERM) => {
            drop(held);
            helper::unmount(mount_point, true).unwrap_or(Err(MountError::NotPermitted))
        }
        Err(error) => Err(MountError::Unmount {
            mount_point: mount_point.to_owned(),
            source: error,
        }),
    }
}
