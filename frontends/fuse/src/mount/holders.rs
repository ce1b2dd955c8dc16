//! Who has a mount in other mount namespaces.
//!
//! A container, a service with directories of its own, or `unshare --mount` begins with a copy of
//! all mounts. Where it does not follow the tree that it was copied from, a mount that is taken
//! away here lives on there, and its server goes on being asked. Only `/proc` tells who that is,
//! and of other users' processes only root.

use super::table::mounts_in;
use rustix::fs::{AtFlags, CWD, StatxFlags};
use std::collections::HashMap;
use std::fs;
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
}

/// What is known of a namespace that has the mount.
struct Found {
    holder: Holder,
    ids: Vec<u64>,
}

/// Who has the mounts of a superblock in other mount namespaces: one process of each.
pub(super) fn holders(device: (u32, u32)) -> Vec<Holder> {
    let own = fs::read_link("/proc/self/ns/mnt").ok();
    let mut namespaces: HashMap<PathBuf, Option<Found>> = HashMap::new();
    for pid in processes() {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let Ok(namespace) = fs::read_link(process.join("ns/mnt")) else {
            continue;
        };
        if Some(&namespace) == own.as_ref() {
            continue;
        }
        let found = namespaces
            .entry(namespace)
            .or_insert_with(|| look(pid, &process, device));
        if let Some(found) = found
            && !found.holder.is_used
        {
            found.holder.is_used = uses(&process, &found.ids, device);
        }
    }
    let mut holders: Vec<Holder> = namespaces
        .into_values()
        .flatten()
        .map(|found| found.holder)
        .collect();
    holders.sort_by_key(|holder| (!holder.is_used, holder.pid));
    holders
}

/// Whether a process of this mount namespace has something open on the mount `id` of a superblock,
/// also if it has left the tree.
pub(super) fn is_used_here(id: u64, device: (u32, u32)) -> bool {
    let own = fs::read_link("/proc/self/ns/mnt").ok();
    processes().into_iter().any(|pid| {
        let process = PathBuf::from(format!("/proc/{pid}"));
        fs::read_link(process.join("ns/mnt")).ok() == own && uses(&process, &[id], device)
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

fn look(pid: u32, process: &Path, device: (u32, u32)) -> Option<Found> {
    let mut mounts = mounts_in(&process.join("mountinfo")).ok()?;
    mounts.retain(|entry| entry.device == device);
    let mount_point = mounts.first()?.mount_point.clone();
    let command = fs::read_to_string(process.join("comm")).unwrap_or_default();
    Some(Found {
        holder: Holder {
            pid,
            command: command.trim_end().to_owned(),
            mount_point,
            is_used: false,
        },
        ids: mounts.iter().map(|entry| entry.id).collect(),
    })
}

/// Whether a process has a file, a directory or a mapping of these mounts. No server is asked.
fn uses(process: &Path, ids: &[u64], (major, minor): (u32, u32)) -> bool {
    let is_of = |place: &str| {
        let flags = AtFlags::STATX_DONT_SYNC;
        let found = rustix::fs::statx(CWD, process.join(place), flags, StatxFlags::MNT_ID);
        found.is_ok_and(|found| ids.contains(&found.stx_mnt_id))
    };
    let is_open = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        let mut lines = text.lines();
        let id = lines.find_map(|line| line.strip_prefix("mnt_id:"));
        id.and_then(|id| id.trim().parse().ok())
            .is_some_and(|id| ids.contains(&id))
    };
    let device = format!(" {major:02x}:{minor:02x} ");
    let mut open = fs::read_dir(process.join("fdinfo")).into_iter().flatten();
    is_of("cwd")
        || is_of("root")
        || open.any(|entry| entry.is_ok_and(is_open))
        || fs::read_to_string(process.join("maps")).is_ok_and(|maps| maps.contains(&device))
}
