//! A disk that lives in an object store: `s3://bucket/prefix`, or a directory as a store.

#![forbid(unsafe_code)]

pub mod format;
pub mod local;
pub mod simulation;
pub mod store;
