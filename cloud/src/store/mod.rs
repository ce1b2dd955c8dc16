//! Where objects are: a flat set of names with bytes, that is far away and fails.
//!
//! Above this module everything is synchronous. A [`Store`] is given a batch of requests and comes
//! back when all of them have an answer; how many of them are under way at once is its own matter.
//! It tries each request once. [`Client`] is what the rest of the crate talks to: it tries again
//! for as long as there is hope, finds out what became of requests whose answers were lost, keeps
//! to rates and counts. What passes and what does not is said in the module `damage`.
//!
//! Two promises are asked of a store: that a put on the condition that the name is free is done for
//! one of many who try, and that a name reads as what was put under it last. S3 has made both since
//! 2024; a store that does not is found out by [`Client::probe`].

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
