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
//!   `serving`, `local_disks`, `sites`, `measures`: what requests are about. What one of them
//!   keeps is its own: the mounts have their table.
//!
//! Their functions are handed what they need of all this. Who has to tell something upwards posts
//! an event. How a mount is made is behind [`Mounter`].
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
mod errors;
mod events;
mod host;
mod keys;
mod local_disks;
mod measures;
mod memory;
mod mounts;
mod pools;
mod registry;
mod scans;
mod serving;
mod sites;
mod snapshots;
mod streams;
#[cfg(test)]
mod tests;
mod trees;
mod values;

pub use alarms::alarm::{Alarm, AlarmKind, AlarmSeverity};
pub use alarms::trial::alarm_ways;
pub use alarms::way::{
    AlarmLimits, AlarmPlan, AlarmPlanError, AlarmSendError, AlarmSetup, AlarmSource, AlarmWay,
    AlarmWayPlan,
};
pub use daemon::recorder::RecordPlace;
pub use daemon::settings::settings_list;
pub use engine::{Engine, EngineSettings};
pub use local_disks::label::disk_label_name;
pub use local_disks::seam::{
    DiskFigures, DiskSetup, KernelDisk, KernelDisks, KernelFault, LeftDisk,
};
pub use memory::{AmpleMemory, MEMORY_MIN, MemoryGauge};
pub use mounts::mounter::{
    Holder, MountFigures, MountJob, MountSwitches, Mounted, Mounter, NoMounter,
};
pub use mounts::snapshot_changes::{SnapshotChanges, SnapshotNameChange};
pub use registry::cache_file::{cached_pools, forget_cached};
pub use registry::damage::DamageLog;
pub use serving::open::ServedVolume;
pub use serving::server::{HangUp, VolumeOffer, VolumeServer, VolumeServing};
pub use serving::table::ServingSetup;
pub use sites::report::SiteReport;
pub use sites::server::{Dashboard, SiteOffer, SiteServer, SiteServing};
pub use sites::site::Site;
pub use trees::error::{TreeEntry, TreeFault};
pub use trees::file::TreeFile;
pub use trees::find::{TreeFound, TreeResolved};
