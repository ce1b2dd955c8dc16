//! The devices of pools, and the vdevs that they form.
//!
//! `tree` describes a pool's vdevs in the clients' terms. New devices are opened and judged before
//! anything on them is lost (`open`, `owner`, `replication`). Devices that nothing depends on can
//! be removed (`remove`).

pub(crate) mod add;
pub(crate) mod agent;
pub(crate) mod change;
mod emptied;
pub(crate) mod fragmentation;
pub(crate) mod labels;
pub(crate) mod limits;
pub(crate) mod online;
pub(crate) mod open;
pub(crate) mod owner;
pub(crate) mod properties;
pub(crate) mod remove;
pub(crate) mod replication;
pub(crate) mod settings;
pub(crate) mod treat;
pub(crate) mod tree;
