//! Commands of our own about pools and what is in them.
//!
//! Each command is one file with a [`Command`](cenote_words::command::Command) that says what it is
//! called, which options it has and what it does. Commands stand in a folder of their subject. Some
//! ask the daemon; others open a pool, a stream or a store themselves, read-only and without a
//! daemon. What these share is in `reading`.
//!
//! [`zstream`] is OpenZFS's, and stands here because it reads streams itself.

#![forbid(unsafe_code)]

pub mod clouds;
pub mod devices;
pub mod files;
pub mod http;
pub mod mounts;
pub mod nbd;
pub mod pools;
mod reading;
pub mod snapshots;
mod sparse;
pub mod streams;
pub mod ublk;
pub mod volumes;
pub mod zstream;
