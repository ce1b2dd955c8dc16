//! The way to the daemon, and what can be said while none runs.
//!
//! A [`Connection`] asks the daemon, starts one where a request needs it, and answers itself for a
//! daemon that is not there. What a daemon that died had is found out by [`death`]: its record is
//! in one of its [`places`], and a unit of systemd may be about to start another one
//! ([`service_unit`]).

#![forbid(unsafe_code)]

mod connection;
pub mod death;
mod missing;
pub mod places;
pub mod service_unit;

pub use connection::{Connection, LeftDisks, NO_START, opened};
