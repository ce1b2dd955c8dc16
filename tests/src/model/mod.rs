//! A file system in memory, to compare a mounted one with under random operations.
//!
//! The model has POSIX's rules for names, links, contents, modes, ACLs and extended attributes, and
//! no knowledge of storage. [`Model`] has the tree and predicts each operation: its error, or its
//! changes. A [`Session`] draws operations and makes them on both sides. A difference in any result
//! is a failure at once, and everything is compared after each remount. [`run`] lets several
//! sessions work at once, on file systems of their own and on a shared one, while properties change
//! and quotas are hit.
//!
//! When the daemon is killed in the middle, what was synced before must be there; the model knows
//! what that is, and takes over whatever else is there.

mod adopt;
mod compare;
mod data;
mod mapped;
mod mapper;
mod names;
mod quota;
mod run;
mod session;
mod tree;

pub use run::{Options, Report, run};
pub use session::Session;
pub use tree::{Acl, Kind, Model, Node, NodeId};
