//! Buckets of S3 without the network: all that can be said of one before it is asked.
//!
//! * [`BucketName`] is where a store is, [`Sources`] finds how it is reached and with which keys:
//!   in the name, `stores.toml`, the environment and `~/.aws`, all of them in [`Surroundings`].
//! * [`Signer`] signs requests, [`escaped`] and [`query`] make their addresses.
//! * [`listing`] reads lists, [`xml`] what else is answered.
//!
//! Requests are sent by the device in a store, which knows what an answer means that was lost.

#![forbid(unsafe_code)]

pub mod listing;
mod name;
mod profiles;
mod settings;
mod sign;
mod stores_file;
mod surroundings;
pub mod xml;

pub use name::{BucketName, BucketNameError};
pub use profiles::read as read_file;
pub use settings::{Keys, Settings, Sources, amazon};
pub use sign::{Credential, Signer, UnfitKeys, escaped, query};
pub use surroundings::Surroundings;
