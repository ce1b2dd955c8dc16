//! What drives a pool and owns its tables: import, space, verification, status.
//!
//! [`assemble`] groups the devices that a scan found into pools, [`import`] opens one, and
//! [`Pool`] then holds every layer below the file systems. Nothing here knows file systems or
//! volumes; they open an object set of a dataset and go on from there.

#![forbid(unsafe_code)]

mod add;
mod allocation;
mod auxiliary_label;
mod away;
mod behind;
mod candidate;
mod checkpoint;
mod choose;
mod claim;
mod clear;
mod clones;
mod commands;
mod create;
mod dedup;
mod devices;
mod duty;
mod error;
mod error_notes;
mod errors;
mod grow;
mod heartbeat;
mod import;
mod import_write;
mod label_tree;
mod last_known;
mod lineage;
mod live;
mod manage;
mod mos;
mod moved_space;
mod options;
mod outsider;
mod pool;
mod rebuild;
mod returning;
mod scan;
mod space;
mod spares;
mod split;
mod split_off;
mod sync;
mod treatment;
mod unread;
mod vdev_properties;
pub mod verify;
mod view;

pub use add::AddRequest;
pub use allocation::RangeConflict;
pub use candidate::{PoolCandidate, assemble};
pub use cenote_io::{FailMode, IoContext, Patience};
pub use clear::ClearError;
pub use create::{
    CreateError, CreateRequest, NewLeaf, NewVdev, VdevShape, create, default_features,
};
pub use devices::{Attachment, Auxiliary, ChangeError, Companion, Offline};
pub use error::{ImportError, MissingVdev};
pub use error_notes::ErrorNotes;
pub use heartbeat::{is_device_in_use, is_in_use};
pub use import::import;
pub use last_known::{Stranger, at_last_path};
pub use lineage::Moment;
pub use options::{Becoming, Buffers, ImportOptions, Rewind};
pub use outsider::{Outsider, Why};
pub use pool::{FoundDevice, Pool, VdevSpace, VdevTree};
pub use returning::{LookedFor, Returned};
pub use scan::{ScanError, ScanRequest, ScanStatus};
pub use spares::SpareError;
pub use split_off::{SplitError, SplitRequest};
pub use sync::{Actor, SyncError};
pub use treatment::{
    TreatmentCommand, TreatmentKind, TreatmentRefusal, TreatmentState, TreatmentStatus,
};
pub use unread::UnreadTable;
pub use vdev_properties::{VdevSetting, VdevSettingError};
