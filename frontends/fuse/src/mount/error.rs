//! Why a file system is not mounted or unmounted.

use crate::session::HandshakeError;
use crate::values::Errno;
use std::io;
use std::path::PathBuf;

/// Why mounting or unmounting failed.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The place is not a directory that can be reached.
    #[error("cannot mount at {mount_point}: {source}")]
    MountPoint {
        /// Where.
        mount_point: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kernel has no FUSE, or the container was not given it.
    #[error("cannot open {device}: {source}")]
    Device {
        /// The device node.
        device: PathBuf,
        /// Why.
        source: Errno,
    },
    /// Neither privilege nor helper nor namespace.
    #[error(
        "mounting needs root, the program fusermount3 (package fuse3), \
         or a user namespace of one's own"
    )]
    NotPermitted,
    /// `mount(2)` failed.
    #[error("mounting {mount_point}: {source}")]
    Mount {
        /// Where.
        mount_point: PathBuf,
        /// Why.
        source: Errno,
    },
    /// The helper could not be run.
    #[error("cannot run fusermount3: {0}")]
    HelperRun(#[source] io::Error),
    /// The helper said no.
    #[error("fusermount3: {message}")]
    HelperRefused {
        /// What it printed.
        message: String,
    },
    /// The socket to the helper failed.
    #[error("talking to fusermount3: {0}")]
    Channel(#[source] Errno),
    /// The first exchange with the kernel failed.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// No worker thread could be started.
    #[error("starting worker threads: {0}")]
    Threads(#[source] io::Error),
    /// The table of mounts could not be read.
    #[error("reading the table of mounts: {0}")]
    Table(#[source] io::Error),
    /// A dead mount stays, since what is mounted on it would go along.
    #[error(
        "a dead mount is at {mount_point} and {above}, which is in use, is mounted on it; \
         unmount that first"
    )]
    InTheWay {
        /// Where the dead mount is.
        mount_point: PathBuf,
        /// What is mounted on it.
        above: PathBuf,
    },
    /// Files on the mount are open, or something is mounted on it.
    #[error("the mount is busy")]
    Busy,
    /// It cannot be reached by its path.
    #[error("something is mounted over it, or it was unmounted")]
    Covered,
    /// `umount(2)` failed.
    #[error("unmounting {mount_point}: {source}")]
    Unmount {
        /// Where.
        mount_point: PathBuf,
        /// Why.
        source: Errno,
    },
}
