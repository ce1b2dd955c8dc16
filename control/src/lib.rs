//! What the daemon and everything that talks to it say to each other.
//!
//! `model` is the vocabulary: requests, answers, pools, vdevs, datasets and their properties as
//! plain data. `protocol` carries it over a unix socket, with file descriptors beside it. A daemon
//! implements [`protocol::Service`]; a client uses [`protocol::Client`]. Commands, dashboards and
//! tests see pools only through this crate. `record` is what a daemon keeps on disk, for whoever
//! comes after it has died; `approvals` is what the machine's administrator has said yes to.
//!
//! Deliberately absent: pools. Nothing here knows the crates that open them, so whoever speaks to
//! a daemon links none of them.

#![forbid(unsafe_code)]

pub mod approvals;
pub mod expected;
pub mod measures;
pub mod model;
pub mod protocol;
pub mod record;
pub mod regular;
