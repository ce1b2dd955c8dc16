//! OpenZFS's command `zfs`, and the helpers that mount(8) calls.
//!
//! Names, options, output and exit codes are OpenZFS's. The commands get everything about pools
//! from the daemon, as types of `cenote_control`; of the on-disk format they have only tables. The
//! tests of `cenote-zpool-commands` compare their output with OpenZFS's transcripts, byte by byte.
//!
//! Deliberately absent: `zpool`, whose crate is above this one, and `zstream`, which reads streams
//! itself. It is with the commands that open files.

#![forbid(unsafe_code)]

pub mod accounts;
pub mod mount_helper;
pub mod zfs;
