//! Mounting without any privilege: a user and mount namespace of one's own.
//!
//! Inside it the process may call `mount(2)` itself; the mounts are visible to the process and its
//! children, and to other processes only in the namespace (`nsenter --user --mount --target PID`).
//! The kernel gives namespaces only to single-threaded processes, so this comes first in `main`.
//!
//! A foreign namespace, such as a container's, is entered by a thread for one call only: a process
//! that stays in it would keep it alive.

use crate::transport::{unshare_directory, unshare_user_and_mounts};
use cenote_base::rt;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Why a namespace could not be entered.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// The process has several threads.
    #[error("a process with several threads cannot enter a user namespace")]
    Threads,
    /// The system forbids it, by sysctl or security module.
    #[error("the system does not allow user namespaces here: {0}")]
    Refused(#[source] Errno),
    /// The identity could not be carried over.
    #[error("cannot write {file}: {source}")]
    Mapping {
        /// The file under `/proc/self`.
        file: &'static str,
        /// Why.
        source: std::io::Error,
    },
}

/// Enters a new user and mount namespace, keeping the caller's user and group numbers.
///
/// Must be called before any thread is started. Other users' files then show the kernel's
/// overflow user, because an unprivileged namespace can map only its creator.
pub fn enter_namespace() -> Result<(), NamespaceError> {
    let uid = rustix::process::getuid().as_raw();
    let gid = rustix::process::getgid().as_raw();
    unshare_user_and_mounts().map_err(|error| match error {
        Errno::INVAL => NamespaceError::Threads,
        error => NamespaceError::Refused(error),
    })?;
    let write = |file: &'static str, content: String| {
        std::fs::write(file, content).map_err(|source| NamespaceError::Mapping { file, source })
    };
    // Without this the kernel refuses a group mapping written by an unprivileged process.
    write("/proc/self/setgroups", "deny".into())?;
    write("/proc/self/uid_map", format!("{uid} {uid} 1\n"))?;
    write("/proc/self/gid_map", format!("{gid} {gid} 1\n"))?;
    // New mounts of the outer namespace still appear inside, ours stay inside.
    let flags = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", flags).map_err(NamespaceError::Refused)
}

/// Does something in another mount namespace, on a thread that ends with it.
pub(super) fn within<T: Send>(
    namespace: BorrowedFd<'_>,
    act: impl FnOnce() -> T + Send,
) -> Result<T, Errno> {
    rt::scope(|scope| {
        let body = move || {
            unshare_directory()?;
            move_into_link_name_space(namespace, Some(LinkNameSpaceType::Mount))?;
            Ok(act())
        };
        let thread = scope.spawn_named("namespace", body);
        let outcome = thread.map(rt::ScopedJoinHandle::join);
        outcome.map_or(Err(Errno::AGAIN), |joined| {
            joined.unwrap_or(Err(Errno::CANCELED))
        })
    })
}
