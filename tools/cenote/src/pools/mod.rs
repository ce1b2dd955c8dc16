//! Commands about pools as a whole: `cenote verify` and `inspect` read one, `cenote health` asks
//! the daemon.

pub mod health;
pub mod inspect;
pub mod verify;
