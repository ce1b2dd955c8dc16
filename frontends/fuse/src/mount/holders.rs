//! Processes that have a mount in other mount namespaces.
//!
//! A container, a service with directories of its own, or `unshare --mount` begins with a copy of
//! all mounts. If the copy does not receive unmounts (mount propagation), a mount that is unmounted
//! here stays there, and its server keeps getting requests. Only `/proc` shows these processes, and
//! other users' processes only to root.
//!
//! Most namespaces have such a mount by accident: they began with a copy of everything. An *idle
//! copy* can be ended without loss:
//!
//! - it is where the mount was here, as a whole, once, in a tree with the same root directory: a
//!   mount that was made there on purpose would be elsewhere, or over the copy;
//! - no process of any namespace has a file, a directory or a mapping of it;
//! - all processes of these namespaces can be inspected, and every other process is visibly in none
//!   of them.
//!
//! What a process opens after the look gets errors; what it has written by then is kept, as the
//! kernel holds back no writes.

use super::table::{MountEntry, mounts_in};
use rustix::fs::{AtFlags, CWD, StatxFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A process of another mount namespace that has a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process, the first one of its namespace.
    pub pid: u32,
    /// Its program.
    pub command: String,
    /// Where the mount is there.
    pub mount_point: PathBuf,
    /// Whether a process of that namespace has something on it open, or its directory there.
    pub is_used: bool,
    /// Whether it is there by accident and nothing uses it.
    pub is_idle_copy: bool,
}

/// What was found out about a namespace that has the mount.
struct Found {
    holder: Holder,
    ids: Vec<u64>,
    /// Whether it has the mount where it was here, and only there, below the same root directory.
    is_copy: bool,
}

/// Whether a process uses a mount.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    No,
    Yes,
    /// It cannot be inspected.
    Unknown,
}

/// The holders in other mount namespaces of the mounts of a superblock that were at `place` here:
/// one process of each.
pub(super) fn holders(device: (u32, u32), place: &Path) -> Vec<Holder> {
    let own = fs::read_link("/proc/self/ns/mnt").ok();
    let root = root_of(Path::new("/proc/self"));
    let mut namespaces: HashMap<PathBuf, Option<Found>> = HashMap::new();
    let mut sees_all = true;
    for pid in processes() {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let namespace = match fs::read_link(process.join("ns/mnt")) {
            Ok(namespace) => namespace,
            Err(_) => {
                sees_all &= !may_have(&process, device);
                continue;
            }
        };
        if Some(&namespace) == own.as_ref() {
            continue;
        }
        let found = namespaces
            .entry(namespace)
            .or_insert_with(|| look(pid, &process, device, (place, root.as_ref())));
        if let Some(found) = found
            && !found.holder.is_used
        {
            let used = uses(&process, &found.ids, device);
            found.holder.is_used = used == Use::Yes;
            sees_all &= used != Use::Unknown;
        }
    }
    let mut found: Vec<Found> = namespaces.into_values().flatten().collect();
    let is_idle = |found: &Found| found.is_copy && !found.holder.is_used;
    if sees_all && !found.is_empty() && found.iter().all(is_idle) {
        // A process of another namespace may have been handed a file.
        let ids: Vec<u64> = found.iter().flat_map(|found| found.ids.clone()).collect();
        let is_idle = processes().into_iter().all(|pid| {
            let process = PathBuf::from(format!("/proc/{pid}"));
            uses(&process, &ids, device) != Use::Yes
        });
        for found in &mut found {
            found.holder.is_idle_copy = is_idle;
        }
    }
    let mut holders: Vec<Holder> = found.into_iter().map(|found| found.holder).collect();
    holders.sort_by_key(|holder| (!holder.is_used, holder.pid));
    holders
}

/// Whether a process that cannot be inspected may be in a namespace that has the mount. Often its
/// table of mounts is readable when little else is.
fn may_have(process: &Path, device: (u32, u32)) -> bool {
    match mounts_in(&process.join("mountinfo")) {
        Ok(mounts) => mounts.iter().any(|entry| entry.device == device),
        Err(error) => error.kind() == ErrorKind::PermissionDenied,
    }
}

/// Whether a process of this mount namespace has something open on the mount `id` of a superblock,
/// also if it has left the tree.
pub(super) fn is_used_here(id: u64, device: (u32, u32)) -> bool {
    let own = fs::read_link("/proc/self/ns/mnt").ok();
    processes().into_iter().any(|pid| {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let is_here = fs::read_link(process.join("ns/mnt")).ok() == own;
        is_here && uses(&process, &[id], device) == Use::Yes
    })
}

/// The numbers of all processes, in ascending order.
fn processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<u32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    pids
}

/// The root directory of a process: the file system and the directory of it.
type Root = ((u32, u32), PathBuf);

fn root_of(process: &Path) -> Option<Root> {
    let mounts = mounts_in(&process.join("mountinfo")).ok()?;
    let mut root = mounts.into_iter().rev();
    let root = root.find(|entry| entry.mount_point == Path::new("/"))?;
    Some((root.device, root.root))
}

fn look(
    pid: u32,
    process: &Path,
    device: (u32, u32),
    (place, root): (&Path, Option<&Root>),
) -> Option<Found> {
    let mut mounts = mounts_in(&process.join("mountinfo")).ok()?;
    mounts.retain(|entry| entry.device == device);
    let is_whole = |entry: &MountEntry| entry.mount_point == place && entry.root == Path::new("/");
    let has_same_root = root.is_some() && root_of(process).as_ref() == root;
    let is_copy = has_same_root && matches!(mounts.as_slice(), [one] if is_whole(one));
    let mount_point = mounts.first()?.mount_point.clone();
    let command = fs::read_to_string(process.join("comm")).unwrap_or_default();
    Some(Found {
        holder: Holder {
            pid,
            command: command.trim_end().to_owned(),
            mount_point,
            is_used: false,
            is_idle_copy: false,
        },
        is_copy,
        ids: mounts.iter().map(|entry| entry.id).collect(),
    })
}

/// Whether a process has a file, a directory or a mapping of these mounts. No server is asked.
fn uses(process: &Path, ids: &[u64], (major, minor): (u32, u32)) -> Use {
    let mut is_unknown = false;
    let mut is_of = |place: &str| {
        let flags = AtFlags::STATX_DONT_SYNC;
        match rustix::fs::statx(CWD, process.join(place), flags, StatxFlags::MNT_ID) {
            Ok(found) => ids.contains(&found.stx_mnt_id),
            Err(errno) => {
                is_unknown |= matches!(errno, Errno::ACCESS | Errno::PERM);
                false
            }
        }
    };
    let is_in_tree = is_of("cwd") || is_of("root");
    let is_open = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        let mut lines = text.lines();
        let id = lines.find_map(|line| line.strip_prefix("mnt_id:"));
        id.and_then(|id| id.trim().parse().ok())
            .is_some_and(|id| ids.contains(&id))
    };
    let device = format!(" {major:02x}:{minor:02x} ");
    let descriptors = fs::read_dir(process.join("fdinfo"));
    let is_refused = |error: &std::io::Error| error.kind() == ErrorKind::PermissionDenied;
    is_unknown |= descriptors.as_ref().is_err_and(is_refused);
    let mut open = descriptors.into_iter().flatten();
    let maps = fs::read(process.join("maps"));
    is_unknown |= maps.as_ref().is_err_and(is_refused);
    let maps = maps.unwrap_or_default();
    let is_mapped = || {
        maps.windows(device.len())
            .any(|part| part == device.as_bytes())
    };
    match is_in_tree || open.any(|entry| entry.is_ok_and(is_open)) || is_mapped() {
        true => Use::Yes,
        false if is_unknown => Use::Unknown,
        false => Use::No,
    }
}
