//! Where objects are: a flat set of names with bytes, that is far away and fails.
//!
//! Above this module everything is synchronous. A [`Store`] gets a batch of requests and returns
//! when all of them have an answer; it decides how many of them are under way at once. It tries
//! each request once. The rest of the crate uses [`Client`]: it retries for as long as there is
//! hope, finds out what became of requests whose answers were lost, keeps to rates and counts. The
//! module `damage` says which failures pass and which do not.
//!
//! A store must keep two promises: of several puts on the condition that the name is free, one
//! succeeds; and a read returns what was put last. S3 has made both since 2024; [`Client::probe`]
//! finds a store that does not.

mod client;
mod damage;
mod directory;
mod pace;
mod request;
pub mod s3;
mod statistics;

pub use client::{Client, Put, Rates};
pub use damage::DamagedObject;
pub use directory::DirectoryStore;
pub(crate) use request::OBJECT_MAX;
pub use request::{Answer, Condition, Meta, Request, Store, StoreError, Tag};
pub use statistics::{
    AwaitedObject, Histogram, RequestCounts, RequestKind, Statistics, StoreHealth,
};
