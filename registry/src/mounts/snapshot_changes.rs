//! Requests of a mount about the snapshots of its file system.

/// A change of a snapshot, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotNameChange<'a> {
    /// Create a snapshot with this name.
    Make(&'a [u8]),
    /// Destroy the snapshot with this name.
    Destroy(&'a [u8]),
    /// Rename a snapshot.
    Rename {
        /// The old name.
        from: &'a [u8],
        /// The new name.
        to: &'a [u8],
    },
}

/// Makes, destroys and renames the snapshots of one file system.
pub trait SnapshotChanges: std::fmt::Debug + Send + Sync {
    /// Carries a change out for a user, and waits until it is on disk. Nothing is invalidated in
    /// the requesting mount: its kernel waits for this call.
    ///
    /// # Errors
    /// An errno: `EACCES` where `zfs_admin_snapshot` forbids it, `EPERM` for users other than root
    /// and the daemon's, `EBUSY` for snapshots that are held, cloned, mounted or being sent.
    fn change(&self, user: u32, change: SnapshotNameChange<'_>) -> Result<(), i32>;
}
