//! Datasets as mounted file systems, over FUSE.
//!
//! The crate speaks the kernel's protocol itself. From the inside out:
//!
//! * [`FileSystem`] is what a mounted thing must answer, in POSIX terms. [`NullFileSystem`] and
//!   [`MemoryTree`] are implementations for measuring and testing.
//! * [`Payload`] and [`DirectoryReply`] take bulk answers without copying cached blocks.
//! * `protocol` knows the bytes, `transport` the device, `session` the worker threads, and
//!   `dispatch` joins them.
//! * [`Mount`] owns a mount's life: privileged, by helper, or in a user namespace; clearing what
//!   a killed server left behind; unmounting.
//!
//! Deliberately absent: permission checks, which the kernel does (`default_permissions`), and any
//! memory of looked-up names, because node ids are object numbers.

#![deny(unsafe_code)]

mod dataset;
mod dispatch;
mod filesystem;
mod follow;
mod lookout;
mod memory_tree;
mod metrics;
mod mount;
mod notify;
mod null;
mod payload;
mod protocol;
mod receive;
mod session;
mod transport;
mod turns;

pub use cenote_posix::BlockBuffer;
pub use dataset::{ControlDirectory, DatasetFiles, DatasetOptions, DatasetSwitches, ErrorSink};
pub use filesystem::{
    Attr, Context, DataCache, DeviceNumber, Entry, Errno, Features, FileFlags, FileKind,
    FileSystem, FileSystemStatus, Handle, Lifetime, Lookup, NodeId, Opened, SeekTarget, Timestamp,
    XattrChange,
};
pub use memory_tree::MemoryTree;
pub use metrics::SessionMetrics;
pub use mount::{
    ClearedMounts, FILE_SYSTEM_TYPE, Mount, MountEntry, MountError, MountOptions, NamespaceError,
    UnmountMode, clear_stale_mounts, enter_namespace, is_stale, mounts, own_mounts,
};
pub use notify::Notifier;
pub use null::{DATA_SIZE as NULL_DATA_SIZE, NullFileSystem};
pub use payload::{DirectoryReply, Payload, SharedBytes};
pub use protocol::check_request;
pub use protocol::init::Negotiated;
pub use session::{HandshakeError, Interrupt};
