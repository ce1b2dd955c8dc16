//! Random histories of a tree of datasets, by commands, beside a model of them.
//!
//! [`Model`] knows what datasets, snapshots, clones, holds and bookmarks there are, what is in
//! their files, and what a command must do to all that or that it must be refused. `draw` draws
//! changes, [`Session`] makes them on both sides and compares: the list of everything after each
//! command, all contents and sums now and then, and what `check` can tell of the space
//! that comes back. A daemon that is killed under a command must have done all of it or nothing.
//!
//! OpenZFS can take turns on the same pool (`foreign`).
//!
//! Nothing here knows how much space a block takes: sums are compared with each other, and with
//! what `cenote verify` and OpenZFS count anew.

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
