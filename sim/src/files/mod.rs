//! Files in the simulation: what is done to them, and which states that allows after a cut.
//!
//! Each writer works in a directory of its own, so that what it left is a sequence of states. A
//! transaction group has all of a writer's operations up to one of them. An intent log behind it
//! has all operations on names up to one, and for each file all operations on its contents up to
//! one that may be later or earlier. So after a power cut the names are as after one operation, and
//! each byte of a file as after one; none of them earlier than what was promised.
//!
//! [`model`] has the states, [`operation`] what can be done, and the words for it, in a pool and in
//! a state alike; [`writer`] does it.

mod model;
mod operation;
mod writer;

pub use model::{contents, found, may_be_left};
pub use operation::Operation;
pub use writer::Writer;
