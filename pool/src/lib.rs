//! What drives a pool and owns its tables: import, space, verification, status.
//!
//! [`assemble`] groups the devices of a scan into pools, [`import`] opens one, and [`Pool`] then
//! holds every layer below the file systems. Nothing here knows file systems or volumes; they open
//! an object set of a dataset themselves.

#![forbid(unsafe_code)]

mod absence;
mod allocation;
mod checkpoint;
mod clones;
mod commands;
mod create;
mod damage;
mod dedup;
mod devices;
mod error;
mod heartbeat;
mod import;
mod live;
mod manage;
mod mos;
mod pool;
mod rebuild;
mod scan;
mod space;
mod sync;
mod treatment;
pub mod verify;
mod view;

pub use absence::clear::ClearError;
pub use absence::returning::{LookedFor, Returned};
pub use cenote_io::{FailMode, IoContext, Patience};
pub use cenote_ondisk::features::default_features;
pub use create::{CreateError, CreateRequest, NewLeaf, NewVdev, VdevShape, create};
pub use damage::error_notes::ErrorNotes;
pub use devices::add::AddRequest;
pub use devices::spares::SpareError;
pub use devices::split_off::{SplitError, SplitRequest};
pub use devices::vdev_properties::{VdevSetting, VdevSettingError};
pub use devices::{
    Attachment, Auxiliary, ChangeError, Companion, Offline, Reach, SpareUser, user_of_spare,
    waiting_spare,
};
pub use error::{ImportError, MissingVdev};
pub use heartbeat::is_device_in_use;
pub use import::candidate::{PoolCandidate, assemble};
pub use import::import;
pub use import::last_known::{Stranger, at_last_path};
pub use import::lineage::Moment;
pub use import::options::{Becoming, Buffers, ImportOptions, Rewind};
pub use import::outsider::{Outsider, Why};
pub use import::unread::UnreadTable;
pub use pool::{FoundDevice, Pool, VdevSpace, VdevTree};
pub use scan::{ScanError, ScanRequest, ScanStatus};
pub use sync::{Actor, SyncError};
pub use treatment::{
    TreatmentCommand, TreatmentKind, TreatmentRefusal, TreatmentState, TreatmentStatus,
};
