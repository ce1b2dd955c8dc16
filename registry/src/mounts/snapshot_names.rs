//! Snapshots that are made, destroyed and renamed where they are listed: `mkdir`, `rmdir` and `mv`
//! in `.zfs/snapshot`.
//!
//! As for commands, each is a task of the pool's; the history has no command to note.

use super::snapshot_changes::{SnapshotChanges, SnapshotNameChange};
use super::table::Mounts;
use crate::imported::Imported;
use cenote_base::hostname;
use cenote_base::{ObjectId, settings};
use cenote_control::model::ControlError;
use cenote_dsl::write::{CreateSnapshots, DestroySnapshots, RenameSnapshots, SyncTask};
use cenote_dsl::{DatasetName, DslError, NameError};
use cenote_pool::{Actor, SyncError};
use rustix::io::Errno;
use std::sync::{Arc, Weak};

/// The names of one file system's snapshots.
pub(crate) struct SnapshotNames {
    mounts: Weak<Mounts>,
    imported: Weak<Imported>,
    /// The file system, under its present name.
    head: ObjectId,
}

impl std::fmt::Debug for SnapshotNames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SnapshotNames")
            .field("head", &self.head)
            .finish_non_exhaustive()
    }
}

fn errno_of_name(error: NameError) -> Errno {
    match error {
        NameError::TooLong => Errno::NAMETOOLONG,
        _ => Errno::INVAL,
    }
}

fn errno_of(error: &SyncError) -> Errno {
    let SyncError::Dsl(error) = error else {
        return Errno::IO;
    };
    match error {
        DslError::DatasetExists { .. } => Errno::EXIST,
        DslError::NoSuchDataset { .. } => Errno::NOENT,
        DslError::Held { .. } | DslError::HasClones { .. } | DslError::Busy { .. } => Errno::BUSY,
        DslError::BadName { source, .. } => errno_of_name(*source),
        DslError::NameTooLong { .. } => Errno::NAMETOOLONG,
        DslError::NoSpaceFor { .. } => Errno::NOSPC,
        DslError::LimitReached { .. } => Errno::DQUOT,
        _ => Errno::IO,
    }
}

impl SnapshotNames {
    pub fn new(mounts: &Mounts, imported: &Arc<Imported>, head: ObjectId) -> Self {
        Self {
            mounts: mounts.itself(),
            imported: Arc::downgrade(imported),
            head,
        }
    }

    fn try_change(&self, user: u32, change: SnapshotNameChange<'_>) -> Result<(), Errno> {
        if settings::ADMIN_SNAPSHOT.get() == 0 {
            return Err(Errno::ACCESS);
        }
        if user != 0 && user != rustix::process::geteuid().as_raw() {
            return Err(Errno::PERM);
        }
        let (Some(mounts), Some(imported)) = (self.mounts.upgrade(), self.imported.upgrade())
        else {
            return Err(Errno::IO);
        };
        let head = imported.dsl().dataset_of(self.head);
        let head = head.map_err(|_| Errno::IO)?.name().clone();
        let run = Run {
            mounts: &mounts,
            imported: &imported,
            head: &head,
            user,
        };
        match change {
            SnapshotNameChange::Make(name) => run.make(name),
            SnapshotNameChange::Destroy(name) => run.destroy(name),
            SnapshotNameChange::Rename { from, to } => run.rename(from, to),
        }
    }
}

impl SnapshotChanges for SnapshotNames {
    fn change(&self, user: u32, change: SnapshotNameChange<'_>) -> Result<(), i32> {
        self.try_change(user, change)
            .map_err(|errno| errno.raw_os_error())
    }
}

/// One change.
struct Run<'a> {
    mounts: &'a Mounts,
    imported: &'a Imported,
    head: &'a DatasetName,
    user: u32,
}

impl Run<'_> {
    /// The snapshot of a name.
    fn named(&self, name: &[u8]) -> Result<DatasetName, Errno> {
        let name = std::str::from_utf8(name).map_err(|_| Errno::ILSEQ)?;
        DatasetName::parse(&format!("{}@{name}", self.head)).map_err(errno_of_name)
    }

    fn task<T: SyncTask + 'static>(&self, task: T) -> Result<(), Errno> {
        if !self.imported.pool.is_writable() {
            return Err(Errno::ROFS);
        }
        let actor = Actor {
            user: u64::from(self.user),
            host: hostname(),
        };
        let done = self.imported.pool.run_command(task, &actor, "");
        done.map(drop).map_err(|error| errno_of(&error))
    }

    /// Ends the mounts of a snapshot under this name.
    fn unmount(&self, snapshot: &DatasetName) -> Result<(), Errno> {
        let of_it = self
            .mounts
            .newest_first(|entry| entry.dataset == snapshot.as_str());
        for (_, mounted) in of_it {
            let gone = self.mounts.unmount_one(mounted, false);
            gone.map_err(|error| match error {
                ControlError::MountBusy { .. } => Errno::BUSY,
                _ => Errno::IO,
            })?;
        }
        Ok(())
    }

    fn make(&self, name: &[u8]) -> Result<(), Errno> {
        let names = vec![self.named(name)?];
        let properties = Vec::new();
        self.task(CreateSnapshots { names, properties })
    }

    fn destroy(&self, name: &[u8]) -> Result<(), Errno> {
        let names = vec![self.named(name)?];
        let freed = self.imported.free_snapshots(&names);
        let _freed = freed.map_err(|_| Errno::BUSY)?;
        self.unmount(&names[0])?;
        let defer = false;
        self.task(DestroySnapshots { names, defer })
    }

    fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), Errno> {
        let from = self.named(from)?;
        let to = self.named(to)?;
        self.unmount(&from)?;
        let component = |name: &DatasetName| name.after_delimiter().unwrap_or_default().to_owned();
        self.task(RenameSnapshots {
            datasets: vec![self.head.clone()],
            from: component(&from),
            to: component(&to),
        })
    }
}
