//! A world in memory for tests: a clock, a store that fails, a local side that loses power.
//!
//! A seed decides everything that happens in it. Time passes when a thread sleeps or a request is
//! under way. A store is a [`SimulatedStore`] that any number of [`Connection`]s lead to. Each
//! connection can be cut, as when the machine on this side of it stops; requests that were under
//! way then may be carried out or not, and some much later. A local side is a [`SimulatedPlace`],
//! which at a power cut loses what was not flushed, or parts of it.

mod env;
mod local;
mod store;

pub use cenote_base::rt::Random;
pub use env::SimulatedEnv;
pub use local::{SimulatedPlace, VolatileDevice};
pub use store::{Connection, Faults, SimulatedStore};
