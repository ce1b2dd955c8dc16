//! A dataset's files as a mount shows them: what joins `posix` to the FUSE crate's trait.
//!
//! Node ids are object numbers, so nothing is remembered per name; `forget` only counts for what
//! was removed. The control directory `.zfs` is made up here: it can always be entered from the
//! root and is listed there when `snapdir=visible`; below `.zfs/snapshot` each snapshot is opened
//! when it is first looked into. All changes pass through the mount, so the kernel may keep all it
//! learns.
//!
//! Deliberately absent: how a mount is made, which is the FUSE crate's, and which dataset is
//! mounted where, which is the engine's.

#![forbid(unsafe_code)]

mod changes;
mod control;
mod convert;
mod dataset_files;
mod exchange;
mod exchanges;
mod flags;
mod gate;
mod ghosts;
mod handles;
mod kernel_view;
mod lifetimes;
mod name_changer;
mod node;
mod opens;
mod serving;
mod snapshot_directory;
mod switches;
mod trees;

pub use dataset_files::{DatasetFiles, ErrorSink};
pub use name_changer::{NameChange, NameChanger};
pub use switches::{ControlDirectory, DatasetOptions, DatasetSwitches};
