//! The seam between the engine and everything that talks to it.
//!
//! `model` is the vocabulary: requests, answers, pools, vdevs, datasets and their properties as
//! plain data. `protocol` carries it over a unix socket, with file descriptors beside it. A daemon
//! implements [`protocol::Service`]; a client uses [`protocol::Client`]. `service` is the daemon's
//! implementation, over the pools that it holds open. Commands, dashboards and tests see pools only
//! through this crate.

#![forbid(unsafe_code)]

pub mod model;
pub mod protocol;
pub mod service;
pub mod sizes;
