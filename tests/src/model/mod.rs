//! A file system in memory, to compare a mounted one with under random operations.
//!
//! The model knows what POSIX says of names, links, contents, modes and extended attributes, and
//! nothing of how they are stored. [`Model`] holds the tree and judges an operation before it is
//! made: which error it must give, or what it changes. [`run`] draws operations and makes them on
//! both sides; a difference in any result is a failure at once, and everything is compared after
//! each remount. A seed gives its operations again.

mod compare;
mod run;
mod tree;

pub use run::{Options, Report, Session, run};
pub use tree::{Kind, Model, Node, NodeId};
