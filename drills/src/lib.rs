//! Faults injected on purpose: `zinject`.
//!
//! The list of faults of all pools, with the numbers by which they end. The faults themselves are
//! in the leaves and the pipeline of their pool (`cenote_injection`). They end with the pool's
//! export and with the daemon, as they end with OpenZFS's module: nothing stores them. Pauses of
//! imports and exports are kept here; they end with the import or export that they made longer.
//!
//! Only root may inject faults: they can cost data, if so many are injected that redundancy does
//! not help.
//!
//! Deliberately absent: vdevs by name, which the engine finds ([`Drill::new`]).

#![forbid(unsafe_code)]

mod act;
mod table;

pub use act::{Drill, LeafNamed};
pub use table::{HeldUp, Injections, Passage};
