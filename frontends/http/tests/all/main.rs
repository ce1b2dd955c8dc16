//! The file server with real clients, with hostile ones, and with storage that is slow or fails.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod clients;
mod common;
mod files;
mod hostile;
mod limits;
mod storage;
