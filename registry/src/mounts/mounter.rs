//! The interface to the frontend that mounts file systems.
//!
//! The service decides what is mounted where and under which restrictions, but not how. It calls a
//! [`Mounter`] once for each mount and gets a handle. It keeps the handle until it unmounts or
//! finds that the mount has ended.

use super::snapshot_changes::SnapshotChanges;
use crate::damage::DamageLog;
use cenote_base::ObjectId;
use cenote_base::metrics::Distribution;
use cenote_control::model::ControlError;
use cenote_dsl::Dataset;
use cenote_pool::Pool;
use cenote_posix::FileSystem;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the dataset's properties and the mount's options allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountSwitches {
    /// Programs may be run.
    pub exec: bool,
    /// Device nodes work.
    pub devices: bool,
    /// Set-user-id bits work.
    pub setuid: bool,
    /// Nothing is changed through the mount.
    pub read_only: bool,
    /// Access times are kept.
    pub atime: bool,
    /// The mount does not update access times, in spite of the properties.
    pub noatime: bool,
    /// Extended attributes are shown.
    pub xattr: bool,
    /// POSIX ACLs are shown.
    pub posix_acl: bool,
    /// The control directory `.zfs` is listed.
    pub snapdir_visible: bool,
    /// The control directory `.zfs` does not exist.
    pub snapdir_disabled: bool,
    /// File names may be longer than 255 bytes.
    pub long_names: bool,
}

/// A file system to be mounted.
#[derive(Debug)]
pub struct MountJob {
    /// Its pool.
    pub pool: Arc<Pool>,
    /// The dataset or snapshot.
    pub dataset: Dataset,
    /// Its files.
    pub files: Arc<FileSystem>,
    /// An existing directory.
    pub mount_point: PathBuf,
    /// The mount namespace that it is in, if that is not the daemon's.
    pub namespace: Option<OwnedFd>,
    /// What is allowed.
    pub switches: MountSwitches,
    /// The property `recordsize`, in bytes.
    pub record_size: u64,
    /// Bytes that could still be written, for `statfs`.
    pub available: u64,
    /// Makes, destroys and renames its snapshots.
    pub snapshots: Box<dyn SnapshotChanges>,
    /// Where to report damage that reads find.
    pub damage: Arc<DamageLog>,
}

/// A process of another mount namespace that has a mount of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process.
    pub pid: u32,
    /// Its program.
    pub command: String,
    /// Where the mount is there.
    pub mount_point: PathBuf,
    /// Whether a process of that namespace has something on it open.
    pub is_used: bool,
    /// Whether the namespace has the mount only because it began with a copy of all mounts, and
    /// nothing uses it.
    pub is_idle_copy: bool,
}

/// What a mount did since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountFigures {
    /// By operation: how many requests there were, and how many nanoseconds they took.
    pub operations: Vec<(&'static str, Distribution)>,
    /// Requests answered with an error, a missing name included.
    pub errors: u64,
    /// Bytes of files that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
}

impl MountFigures {
    /// Adds what another mount of the same dataset did.
    pub fn add(&mut self, other: &Self) {
        if self.operations.is_empty() {
            self.operations.clone_from(&other.operations);
        } else {
            for ((_, sum), (_, more)) in self.operations.iter_mut().zip(&other.operations) {
                sum.add(more);
            }
        }
        self.errors += other.errors;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
    }
}

/// A mount that was made.
pub trait Mounted: Send + Sync {
    /// Where it is.
    fn mount_point(&self) -> &Path;

    /// Whether it is still there; it may have been unmounted from outside.
    fn is_there(&self) -> bool;

    /// Whether it is in the directory tree. What was unmounted from outside an instant ago is not,
    /// and may still be there.
    fn is_in_tree(&self) -> bool;

    /// Changes what it allows, while it is used. `false` if that needs a new mount: some options
    /// are fixed for a mount's life, and changing a mount needs privileges.
    fn change(&self, switches: &MountSwitches) -> Result<bool, ControlError>;

    /// Closes accessed snapshots of the dataset that were destroyed or renamed.
    fn forget_snapshots(&self);

    /// Whether it can stay while its file system becomes another state of itself.
    fn can_exchange(&self) -> bool;

    /// Holds requests back, and waits for those under way. If these do not end in time, resumes and
    /// returns false. Otherwise [`Self::take_up`] or [`Self::go_on`] must follow.
    fn hold_back(&self) -> bool;

    /// Resumes with `files`, another state of its file system. Of the files that were `open`, some
    /// are `gone` there.
    fn take_up(&self, files: Arc<FileSystem>, open: &[ObjectId], gone: &[ObjectId]);

    /// Resumes with the old state.
    fn go_on(&self);

    /// Takes it away; with `force` although files are open. It is there after that only if another
    /// mount namespace has it.
    ///
    /// # Errors
    /// [`ControlError::MountBusy`] if something uses it; the mount then stays.
    fn unmount(&self, force: bool) -> Result<(), ControlError>;

    /// Its holders in other mount namespaces, one process of each, as far as they are visible.
    fn holders(&self) -> Vec<Holder> {
        Vec::new()
    }

    /// What it did.
    fn figures(&self) -> MountFigures;

    /// Ends it in all namespaces: its users get errors. Returns whether it has ended.
    fn end(&self) -> bool;
}

/// Makes mounts.
pub trait Mounter: Send + Sync {
    /// Mounts a file system and serves it until it is unmounted.
    fn mount(&self, job: MountJob) -> Result<Box<dyn Mounted>, ControlError>;
}

/// Mounts nothing: for a service that only answers questions.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMounter;

impl Mounter for NoMounter {
    fn mount(&self, _job: MountJob) -> Result<Box<dyn Mounted>, ControlError> {
        Err(ControlError::Unsupported {
            what: "mounting".to_owned(),
        })
    }
}
