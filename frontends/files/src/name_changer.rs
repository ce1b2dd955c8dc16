//! The interface through which a mount creates, destroys and renames snapshots.

use cenote_fuse::Errno;

/// What is to become of a snapshot's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameChange<'a> {
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

/// Carries out a change for a user.
pub type NameChanger = Box<dyn Fn(u32, NameChange<'_>) -> Result<(), Errno> + Send + Sync>;
