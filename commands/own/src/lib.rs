//! Cenote's own commands about pools and their contents.
//!
//! Each command is one file with a [`Command`](cenote_words::command::Command): its name, its
//! options and what it does. Commands are grouped in directories by subject. Some ask the daemon;
//! others open a pool, a stream or a store themselves, read-only and without a daemon. `reading`
//! has what these share.
//!
//! [`zstream`] is OpenZFS's command; it is here because it reads streams itself.

#![forbid(unsafe_code)]

pub mod clouds;
pub mod devices;
pub mod files;
pub mod http;
pub mod mounts;
pub mod nbd;
pub mod pools;
pub mod reading;
pub mod snapshots;
mod sparse;
pub mod streams;
pub mod ublk;
pub mod volumes;
pub mod zstream;
