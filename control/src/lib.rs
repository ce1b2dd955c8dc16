//! What the daemon and everything that talks to it say to each other.
//!
//! `model` is the vocabulary: requests, answers, pools, vdevs, datasets and their properties as
//! plain data. `protocol` carries it over a unix socket, with file descriptors beside it. A daemon
//! implements [`protocol::Service`]; a client uses [`protocol::Client`]. Commands, dashboards and
//! tests see pools only through this crate. `record` is the state that a daemon keeps on disk, for
//! the next daemon or command after it has died. `approvals` are the values that the machine's
//! administrator has approved.
//!
//! Deliberately absent: pools. Nothing here depends on the crates that open them, so clients of a
//! daemon link none of them.

#![forbid(unsafe_code)]

pub mod approvals;
pub mod expected;
pub mod measures;
pub mod model;
pub mod protocol;
pub mod record;
pub mod regular;
