//! The connection to the daemon, and answers while none runs.
//!
//! A [`Connection`] asks the daemon, starts one if a request needs it, and answers itself if none
//! runs. [`death`] finds out what a dead daemon had from its record, which is in one of its
//! [`places`]. A systemd unit may be about to start another one ([`service_unit`]).

#![forbid(unsafe_code)]

mod connection;
pub mod death;
mod missing;
pub mod places;
pub mod service_unit;

pub use connection::{Connection, LeftDisks, NO_START, opened};
