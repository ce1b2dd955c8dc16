//! Going on with a stream in a file, where the other side is out of reach or knows nothing of it.
//!
//! A stream can be gone on with at a block: a token names its object and offset, and a sender makes
//! a stream that begins there (format/4 6). Two files need that without a receiver's state or a
//! sender's pool.
//!
//! *A file that a sender was writing* ([`cut`], [`join`]). The last block whose header is there is
//! where it is cut: everything before has been seen to be right. The sender is asked for the rest
//! with a token made of the file's BEGIN. What it sends begins with a BEGIN of its own, and with
//! the object once more; these are left out, and the checksums, which run through all of a stream,
//! are computed anew. The file is then what it had been if nothing had happened.
//!
//! *A file that a receiver was reading* ([`rest`]). The receiver's token says how far it came. Its
//! stream is written again as the sender would: BEGIN says where it goes on, the object comes once
//! more, then everything from the block on.
//!
//! A package cannot be joined: what its later streams are, only the pool knows. It can be
//! received further, since all of them are there.

mod cut;
mod join;
mod rest;

pub use cut::{Cut, Found, cut};
pub use join::join;
pub use rest::rest;

#[cfg(test)]
mod tests;
