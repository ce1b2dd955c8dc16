//! A disk that lives in an object store: `s3://bucket/prefix`, or a directory as a store.
//!
//! The device is a log of immutable objects with a map from addresses to them. A commit is one put
//! that must find its name free: that is also the fence between two writers. Beside the store lies
//! a local log, which makes flushes durable at once and is uploaded in order.
//!
//! Stores are buckets of S3, directories, and a simulated one. Programs open devices by name, those
//! of the system too, through [`Schemes`].

#![forbid(unsafe_code)]

mod cache;
mod chain;
mod checkpoint;
mod clean;
mod compact;
mod core;
mod device;
mod error;
mod extent_map;
pub mod format;
mod kept;
mod living;
pub mod local;
pub mod location;
mod log;
mod map;
mod offset;
mod open;
mod opener;
mod options;
mod origin;
mod pack;
mod queue;
mod read;
mod restore;
mod schemes;
pub mod simulation;
mod space;
mod status;
mod step;
pub mod store;
mod upload;
mod verify;
mod work;

pub use cenote_base::{is_url, scheme};
pub use device::{Close, CloudDevice, UploadPoint};
pub use error::{CloudError, Result};
pub use kept::Loss;
pub use offset::OffsetOpener;
pub use open::{Known, LogAside};
pub use opener::{LOG_SIZE, Opening, StoreOpener};
pub use options::{CachePolicy, Drive, Options, WriteMode};
pub use schemes::{Scheme, Schemes, UnknownScheme};
pub use space::{Counts, Space};
pub use status::Status;
pub use verify::{ObjectFault, Verified};
