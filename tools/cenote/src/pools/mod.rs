//! Commands about pools as a whole: `cenote verify` and `inspect` read one, `cenote health` and
//! `approve` ask the daemon.

pub mod approve;
pub mod health;
pub mod inspect;
pub mod verify;
