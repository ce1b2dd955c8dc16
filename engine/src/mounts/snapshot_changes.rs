//! Requests of a mount about the snapshots of its file system.

/// What is to become of a snapshot's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotNameChange<'a> {
    /// A snapshot is made under it.
    Make(&'a [u8]),
    /// The snapshot is destroyed.
    Destroy(&'a [u8]),
    /// The snapshot gets another one.
    Rename {
        /// The name that it has.
        from: &'a [u8],
        /// The one that it gets.
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
