//! Commands about whole pools: `cenote verify` and `inspect` read one, `approve` asks the daemon.

pub mod approve;
pub mod inspect;
pub mod verify;
