//! Resuming a stream in a file, without a resume token from a receiver or the sender's pool.
//!
//! A stream can be resumed at a block: a token names its object and offset, and a sender makes a
//! stream that begins there (format/4 6). This module does it for two kinds of files.
//!
//! *A file that a sender was writing* ([`cut`], [`join`]). It is cut at the last block whose header
//! was written: everything before is verified. A token from the file's BEGIN requests the rest. The
//! sender's answer has its own BEGIN and repeats the object; these are left out. The checksums,
//! which run through the whole stream, are recomputed. The result is the file as it would have been
//! without the interruption.
//!
//! *A file that a receiver was reading* ([`rest`]). The receiver's token says how much it received.
//! The rest is written as the sender would write it: BEGIN has the position, the object is
//! repeated, then everything from that block on follows.
//!
//! A package cannot be joined: only the pool knows its later streams. But it can be used to resume
//! a receive, since it has all streams.

mod cut;
mod join;
mod rest;

pub use cut::{Cut, Found, cut};
pub use join::join;
pub use rest::rest;

#[cfg(test)]
mod tests;
