//! Replication, compared: histories are sent by one side, received by another, and must be equal.
//!
//! File systems change by the random operations of [`crate::model`]: holes, truncations, numbers
//! that are used again, attributes that need spill blocks, cloned blocks, properties that change
//! under them. After each stretch of operations a snapshot is taken, and every replica of the file
//! system receives what came since its last one ([`Replica`]): by Cenote, by OpenZFS (`rival`),
//! and by Cenote from what OpenZFS had received. Options of both commands are drawn anew each time;
//! what a receiver must be told the same way always (`-w`) stays with the replica. Some streams are
//! cut on their way and gone on with, some over the death of the receiving daemon.
//!
//! What is compared is what users see: every file of the snapshot, and its guid. At the end
//! OpenZFS judges all pools.

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
