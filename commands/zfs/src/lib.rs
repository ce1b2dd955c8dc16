//! The command lines of OpenZFS: `zpool`, `zfs`, and what mount(8) calls.
//!
//! Names, options, output and exit codes are OpenZFS's. All they know of pools comes from the
//! daemon, in the words of `cenote_control`; of the format they know tables. The module
//! `reference` compares what they print with OpenZFS's transcripts, byte by byte.
//!
//! Deliberately absent: `zstream`, which reads streams itself and stands with the commands that
//! open files.

#![forbid(unsafe_code)]

mod accounts;
pub mod mount_helper;
#[cfg(test)]
mod reference;
pub mod zfs;
pub mod zpool;
