//! A disk that lives in an object store: `s3://bucket/prefix`, or a directory as a store.
//!
//! The device is a log of immutable objects with a map from addresses to them. A commit is one put
//! that must find its name free: that is also the fence between two writers. Beside the store lies
//! a local log, which makes flushes durable at once and is uploaded in order.
//!
//! No command leads here yet. Absent so far: full checkpoints of the map with compaction and
//! deletes (their parts stand in `map` and `format`, and nobody drives them), a read cache on disk,
//! and stores other than a directory and a simulated one.

#![forbid(unsafe_code)]
#![expect(
    dead_code,
    reason = "full checkpoints, compaction, marks and prefetch are not driven yet"
)]

mod cache;
mod chain;
mod core;
mod device;
mod error;
mod extent_map;
pub mod format;
pub mod local;
pub mod location;
mod log;
mod map;
mod open;
mod opener;
mod options;
mod pack;
mod queue;
mod read;
pub mod simulation;
mod status;
pub mod store;
mod upload;

pub use device::{Close, CloudDevice};
pub use error::{CloudError, Result};
pub use open::LogAside;
pub use opener::StoreOpener;
pub use options::{CachePolicy, Drive, Options, WriteMode};
pub use status::Status;
