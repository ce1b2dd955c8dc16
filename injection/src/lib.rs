//! Faults made on purpose, for drills: what `zinject` asks for.
//!
//! A drill shows what a pool does about a fault only if the fault is like a real one. So a fault
//! acts where a real one would, and everything above it is as always: counters, repair, diagnosis,
//! suspension. There are two places:
//!
//! - the request of a leaf to its device: [`LeafFaults`] answers with errors, wrong bytes and
//!   delays;
//! - a block, wherever it is stored: [`BlockFaults`] says which reads of its copies fail, and which
//!   contents cannot be decoded.
//!
//! **Invariants**: without faults a request costs one relaxed load. A fault has no effect on disk
//! but the writes that [`LeafError::Noop`] drops, which is what it is for. Faults live as long as
//! the pool is imported, and are stored nowhere.
//!
//! Deliberately absent: the list of faults with their numbers, which the engine has, and panics.

#![forbid(unsafe_code)]

mod block;
mod chance;
mod drilled;
mod leaf;

pub use block::{BlockDrill, BlockError, BlockFault, BlockFaults};
pub use chance::Chance;
pub use drilled::Drilled;
pub use leaf::{Delay, LabelPart, LeafError, LeafFault, LeafFaults, Work};

#[cfg(test)]
mod tests;
