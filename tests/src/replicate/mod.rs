//! Replication: histories are sent by one side, received by another, and must be equal.
//!
//! File systems change by the random operations of [`crate::model`]: holes, truncations, reused
//! numbers, attributes that need spill blocks, cloned blocks, changing properties. After each
//! stretch of operations a snapshot is taken, and every replica of the file system receives the
//! changes since its last one ([`Replica`]): by Cenote, by OpenZFS (`rival`), and by Cenote from
//! what OpenZFS had received. Options of both commands are drawn at each time; those that a
//! receiver always needs in the same way (`-w`) stay with the replica. Some streams are cut in
//! transit and resumed, some after the receiving daemon was killed.
//!
//! The comparison covers what users see: every file of the snapshot, and its guid. At the end
//! OpenZFS checks all pools.

mod cuts;
mod frames;
mod link;
mod mutants;
mod replica;
mod rival;
mod run;
mod tree;
mod volumes;

pub use cuts::{CutOptions, CutReport, run_cuts};
pub use link::{receive, send};
pub use mutants::{MutantOptions, MutantReport, run_mutants};
pub use run::{Options, Report, run};
pub use tree::{TreeOptions, TreeReport, run_tree};
