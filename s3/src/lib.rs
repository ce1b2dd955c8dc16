//! Buckets of S3, and how one is asked: all that does not depend on what is in them.
//!
//! * [`BucketName`] is where a store is, [`Sources`] finds how it is reached and with which keys:
//!   in the name, `stores.toml`, the environment and `~/.aws`, all of them in [`Surroundings`].
//! * [`Signer`] signs requests, [`escaped`] and [`query`] make their addresses.
//! * [`listing`] reads lists, [`xml`] what else is answered.
//! * [`Http`] sends requests and receives answers whole, within an [`Allowance`]; a [`Fault`] is
//!   why there is no answer, and a [`Refusal`] is one that says no. [`KeyRing`] has the keys, also
//!   those of roles.
//!
//! Nothing is tried again: the device in a store knows what an answer means that was lost.

#![forbid(unsafe_code)]

mod allowance;
mod credentials;
mod http;
pub mod listing;
mod name;
mod profiles;
mod refusal;
mod role;
mod settings;
mod sign;
mod stores_file;
mod surroundings;
pub mod xml;

pub use allowance::Allowance;
pub use credentials::KeyRing;
pub use http::{ANSWER_MAX, Http, Limits, Seen, Whole};
pub use name::{BucketName, BucketNameError};
pub use refusal::{Fault, Refusal};
pub use role::is_far;
pub use settings::{Keys, Settings, Sources};
pub use sign::{Credential, Signer, UnfitKeys, escaped, query};
pub use surroundings::Surroundings;
