//! Random histories of a tree of datasets, made by commands and compared with a model.
//!
//! [`Model`] knows the datasets, snapshots, clones, holds and bookmarks, the contents of their
//! files, and the effect or refusal of each command. `draw` draws changes, and [`Session`] makes
//! them on both sides and compares. It compares the list of everything after each command,
//! sometimes all contents and sums, and the space that `check` computes for destroyed snapshots. If
//! a daemon is killed during a command, all or nothing of it must be done.
//!
//! OpenZFS can take turns with Cenote on the same pool (`foreign`).
//!
//! The model does not know how much space a block takes: sums are compared with each other, and
//! with the recount by `cenote verify` and OpenZFS.

mod change;
mod check;
mod checkpoint;
mod draw;
mod foreign;
mod foreign_sets;
mod model;
mod session;

pub use change::Change;
pub use model::Model;
pub use session::{Options, Report, Session, run};
