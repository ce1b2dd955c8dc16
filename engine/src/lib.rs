//! The daemon's engine: requests carried out on the pools that are imported.
//!
//! The crate `cenote_registry` has the imported pools, with the state of each import, their memory,
//! the table of mounts, and the command behind a change with its note in the history. [`Engine`]
//! hands each request to the folder that it is about (`dispatch`). From the bottom up, and none
//! knows those after it:
//!
//! * what all share: the environment (`context`), and the devices in object stores that are open
//!   (`clouds`);
//! * `alarms`: messages to the administrator when something is wrong;
//! * `keys`, `devices`, `snapshots`, `scans`, `datasets`, `pools`, `daemon`, `measures`: what
//!   requests are about; `delegation`: grants of permissions. What one of them keeps is its own.
//!
//! Their functions get what they need of all this as arguments. A folder reports to later ones by
//! posting an event. [`Mounter`] makes mounts. [`Publisher`] publishes volumes and file systems
//! over the network, and volumes as disks of this machine (`publishing`).
//!
//! Requests run in parallel. They read a pool through short-lived handles. Their changes go through
//! the pool's syncing thread, one after the other.
//!
//! Deliberately absent: the wire format of requests, which is in `control`, and any cache of what
//! pools contain: each request reads it from the pool.

#![forbid(unsafe_code)]

mod alarms;
mod changes;
mod clouds;
mod context;
mod daemon;
mod datasets;
mod delegation;
mod devices;
mod dispatch;
mod engine;
mod host;
mod keys;
pub mod measures;
mod pools;
mod publishing;
mod scans;
mod snapshots;
mod streams;
#[cfg(test)]
mod tests;

use cenote_registry as registry;
pub use cenote_registry::errors;
use cenote_registry::{command, events, mounts, values};

pub use clouds::own_disks::{ListLeft, OwnDisks, disk_number};
pub use daemon::recorder::RecordPlace;
pub use daemon::settings::settings_list;
pub use engine::{Engine, EngineSettings};
pub use mounts::mounter::{
    Holder, MountFigures, MountJob, MountSwitches, Mounted, Mounter, NoMounter,
};
pub use mounts::snapshot_changes::{SnapshotChanges, SnapshotNameChange};
pub use publishing::{Changed, NoPublisher, Publish, PublishAct, PublishedOf, Publisher};
pub use registry::approvals::ApprovedIn;
pub use registry::cache_file::{cached_pools, forget_cached};
pub use registry::damage::DamageLog;
pub use registry::imported::Imported;
pub use registry::memory::{AmpleMemory, MEMORY_MIN, MemoryGauge};
pub use registry::open_trees::{OpenTree, OpenTrees};
pub use registry::served::{Grip, HangUp, LetsGo, Served, User};
pub use registry::served_volume::{Opening, ServedVolume, check_volume};
pub use registry::table::Registry;
pub use registry::walk::{is_within, walk_heads};

/// Properties that publish, and their values.
pub mod properties {
    pub use crate::registry::approvals::{HIDDEN, SNAPSHOTS, VISIBLE, VOLUME_MODE};
    pub use crate::values::{DISK, SERVED, UPSTREAM};
}
