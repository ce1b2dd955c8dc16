//! Mounted file systems, over FUSE.
//!
//! The crate speaks the kernel's protocol itself. From the inside out:
//!
//! * [`FileSystem`] is what a mounted thing must answer, in POSIX terms. [`NullFileSystem`] and
//!   [`MemoryTree`] are implementations for measuring and testing; the one that matters, over a
//!   dataset, is the crate above this one.
//! * [`Payload`] and [`DirectoryReply`] take bulk answers without copying cached blocks.
//! * `protocol` knows the bytes, `transport` the device, `session` the connection, `workers` its
//!   threads, and `dispatch` joins them.
//! * [`Mount`] owns a mount's life: privileged, by helper, or in a user namespace; clearing what
//!   a killed server left behind; unmounting.
//!
//! Deliberately absent: anything of ZFS; permission checks, which the kernel does
//! (`default_permissions`); and a table of looked-up names, because implementations of the trait
//! have numbers for their files.

#![deny(unsafe_code)]

mod dispatch;
mod filesystem;
mod follow;
mod interrupt;
mod lookout;
mod memory_tree;
mod metrics;
mod mount;
mod notify;
mod null;
mod overdue;
mod payload;
mod protocol;
mod receive;
mod session;
mod transport;
mod turns;
mod values;
mod workers;

pub use cenote_device::BlockBuffer;
pub use filesystem::{Context, FileSystem};
pub use interrupt::Interrupt;
pub use memory_tree::MemoryTree;
pub use metrics::SessionMetrics;
pub use mount::{
    ClearedMounts, FILE_SYSTEM_TYPE, Holder, Mount, MountEntry, MountError, MountOptions,
    NamespaceError, UnmountMode, abort_handle, clear_stale_mounts, enter_namespace, is_stale,
    mounts, own_mounts, stale_mounts,
};
pub use notify::Notifier;
pub use null::{DATA_SIZE as NULL_DATA_SIZE, NullFileSystem};
pub use payload::{DirectoryReply, Payload, SharedBytes};
pub use protocol::check_request;
pub use protocol::init::Negotiated;
pub use session::HandshakeError;
pub use values::{
    Attr, AttrChanges, DataCache, DeviceNumber, Entry, Errno, Features, FileFlags, FileKind,
    FilePlace, FileSystemStatus, Handle, Lifetime, Lookup, NewMode, NodeId, Opened, SeekTarget,
    TimeChange, Timestamp, XattrChange,
};
