//! A disk that lives in an object store: `s3://bucket/prefix`, or a directory as a store.

#![forbid(unsafe_code)]

mod error;
mod extent_map;
pub mod format;
pub mod local;
mod log;
mod map;
mod options;
mod pack;
mod queue;
pub mod simulation;
pub mod store;
pub use error::{CloudError, Result};
pub use options::{CachePolicy, Drive, Options, WriteMode};
mod cache;
mod chain;
mod core;
mod device;
mod open;
mod read;
mod upload;
pub use device::{Close, CloudDevice};
pub use open::LogAside;
mod status;
pub use status::Status;
