//! Commands about pools as a whole: `cenote verify` and `inspect` read one, `approve` asks the
//! daemon.

pub mod approve;
pub mod inspect;
pub mod verify;
