//! The POSIX layer: files, directories and their attributes on an object set.
//!
//! A file system is an object set whose object 1, the master node, names the root directory and
//! the tables by which attributes are stored. Each file is an object: its bonus buffer holds the
//! attributes, its blocks the contents; a directory's contents are a ZAP from names to objects.
//! [`FileSystem`] opens one, [`Znode`] is an open object of it, and both are shared by as many
//! threads as like.
//!
//! After a crash the intent log knows more than the object set. [`FileSystem::open_replayed`]
//! repeats its operations in memory, and everything read from then on shows their outcome;
//! [`FileSystem::replay_log`] repeats them on disk. Both do it in the same transactions.
//!
//! **Invariants**: nothing on disk is trusted to be consistent; walks over it keep their own stack,
//! notice what they have seen, and end. Caches are bounded and leased from the pool's memory
//! budget. Access is not checked here: frontends check it.

#![forbid(unsafe_code)]

// What opens golden pools for the tests of this crate names it from outside.
#[cfg(test)]
extern crate self as cenote_posix;

mod accounting;
mod acl;
mod attributes;
mod beside;
mod cache;
mod diff;
mod directory;
mod error;
mod file;
mod file_system;
mod fuid;
mod kind;
mod master;
mod name_index;
mod name_of;
mod neighbours;
mod path;
mod privileges;
mod record;
mod stat;
mod stored_acl;
mod target;
mod time;
mod viewers;
mod walk;
pub mod write;
mod xattr;
mod znode;

pub use accounting::Account;
pub use acl::{StoredAcl, entry_text};
pub use attributes::{
    Attributes, FLAG_APPEND_ONLY, FLAG_IMMUTABLE, FLAG_NO_DUMP, FLAG_NO_UNLINK, FLAG_PROJECT_ID,
    FLAG_PROJECT_INHERIT, FLAG_XATTR,
};
pub use cenote_dmu::{BlockBuffer, IoContext, Segment};
pub use cenote_ondisk::acl::{Ace, Who};
pub use diff::{Diff, DiffChange, DiffRecord};
pub use directory::{DirectoryEntry, DirectoryReader, NAME_LENGTH_MAX, Target};
pub use error::PosixError;
pub use file::{Access, SeekTarget};
pub use file_system::FileSystem;
pub use fuid::{Fuid, FuidTable, Owner};
pub use kind::{DeviceNumber, FileKind};
pub use master::{
    AccountKind, CaseSensitivity, MasterNode, NameRules, QuotaObjects, VERSION_FUIDS, VERSION_MAX,
    VERSION_QUOTAS,
};
pub use path::{LINKS_MAX, SymlinkPolicy};
pub use privileges::Changer;
pub use stat::{DatasetSpace, FileSystemStat, Stat};
pub use time::Timestamp;
pub use viewers::Viewer;
pub use walk::{TreeWalk, WalkEntry};
pub use write::replay::ReplayReport;
pub use write::replay::memory::ReplayOptions;
pub use xattr::{POSIX_ACL_ACCESS, POSIX_ACL_DEFAULT, VALUE_SIZE_MAX};
pub use znode::Znode;
