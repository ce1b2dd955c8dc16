//! The daemon's engine: requests carried out on the pools that are imported.
//!
//! [`Engine`] hands each request to the folder that it is about (`dispatch`). From the bottom up,
//! and none knows those after it:
//!
//! * `registry`: the imported pools, with what goes with an import;
//! * what all share: `errors`, the environment (`context`), a short memory of `events`, `memory`
//!   divided among pools, the devices in object stores that are open (`clouds`), the `command`
//!   behind a change with its note in the history;
//! * `alarms`: what a person is told of all this, without asking;
//! * `mounts`, `keys`, `devices`, `snapshots`, `scans`, `datasets`, `pools`, `daemon`,
//!   `measures`: what requests are about. What one of them keeps is its own: the mounts have their
//!   table.
//!
//! Their functions are handed what they need of all this. Who has to tell something upwards posts
//! an event. How a mount is made is behind [`Mounter`]; what is published beside mounts, over the
//! network and as disks of this machine, is behind [`Publisher`] (`publishing`).
//!
//! Requests run side by side. What they read of a pool are handles of a moment; what they change
//! goes through the pool's syncing thread, one change after the other.
//!
//! Deliberately absent: what requests look like on the wire, which is `control`'s, and any memory
//! of what pools hold: that is read from them at each request.

#![forbid(unsafe_code)]

mod alarms;
mod changes;
mod clouds;
mod command;
mod context;
mod daemon;
mod datasets;
mod devices;
mod dispatch;
mod engine;
pub mod errors;
mod events;
mod host;
mod keys;
pub mod measures;
mod memory;
mod mounts;
mod pools;
mod publishing;
mod registry;
mod scans;
mod snapshots;
mod streams;
#[cfg(test)]
mod tests;
mod values;

pub use alarms::alarm::{Alarm, AlarmKind, AlarmSeverity};
pub use alarms::trial::alarm_ways;
pub use alarms::way::{
    AlarmLimits, AlarmPlan, AlarmPlanError, AlarmSendError, AlarmSetup, AlarmSource, AlarmWay,
    AlarmWayPlan,
};
pub use clouds::own_disks::{ListLeft, OwnDisks, disk_number};
pub use daemon::recorder::RecordPlace;
pub use daemon::settings::settings_list;
pub use engine::{Engine, EngineSettings};
pub use memory::{AmpleMemory, MEMORY_MIN, MemoryGauge};
pub use mounts::mounter::{
    Holder, MountFigures, MountJob, MountSwitches, Mounted, Mounter, NoMounter,
};
pub use mounts::snapshot_changes::{SnapshotChanges, SnapshotNameChange};
pub use publishing::{Changed, NoPublisher, Publish, PublishAct, PublishedOf, Publisher};
pub use registry::approvals::ApprovedIn;
pub use registry::cache_file::{cached_pools, forget_cached};
pub use registry::damage::DamageLog;
pub use registry::imported::Imported;
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
