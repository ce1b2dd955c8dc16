//! OpenZFS's command lines: `zpool`, `zfs`, and the helpers that mount(8) calls.
//!
//! Names, options, output and exit codes are OpenZFS's. The commands get everything about pools
//! from the daemon, as types of `cenote_control`; of the on-disk format they have only tables. The
//! module `reference` compares their output with OpenZFS's transcripts, byte by byte.
//!
//! Deliberately absent: `zstream`, which reads streams itself. It is with the commands that open
//! files.

#![forbid(unsafe_code)]

mod accounts;
pub mod mount_helper;
#[cfg(test)]
mod reference;
pub mod tools;
pub mod zfs;
pub mod zpool;
