//! Pools: found and imported, made, changed, exported and destroyed; what they are and do.
//!
//! The topmost of the folders: a new pool has a root dataset, keys and a mount. An import goes from
//! a `search` by way of `candidates`, a `trial` and a `diagnosis` of what is missing to `import` or
//! `refusal`.

pub(crate) mod activity;
mod cached;
pub(crate) mod candidates;
pub(crate) mod changes;
pub(crate) mod checkpoint;
pub mod compatibility;
pub(crate) mod create;
pub(crate) mod diagnosis;
pub(crate) mod events;
pub(crate) mod export;
pub(crate) mod growth;
pub(crate) mod history;
pub(crate) mod import;
pub(crate) mod maintain;
pub(crate) mod opened;
pub(crate) mod properties;
pub(crate) mod refusal;
pub(crate) mod search;
pub(crate) mod set;
pub(crate) mod settings;
pub(crate) mod split;
pub(crate) mod status;
pub(crate) mod suspension;
pub(crate) mod trial;
