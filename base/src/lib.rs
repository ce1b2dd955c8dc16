//! Ids, units, the environment and bounded building blocks that every layer shares.
//!
//! Nothing here knows ZFS's format, or reads and writes devices. The types here prevent a caller
//! from passing a transaction group number where an object number is meant. Code that reads a
//! clock or draws randomness does so through an [`Env`], which a simulator can replace.

#![forbid(unsafe_code)]

mod bookmark;
mod client;
mod env;
mod held_place;
mod host;
mod ids;
mod memory;
pub mod metrics;
mod nearest;
mod places;
pub mod rt;
pub mod settings;
mod size;

pub use bookmark::Bookmark;
pub use client::client_of;
pub use env::{Env, RealEnv};
pub use held_place::HeldPlace;
pub use host::{hostname, is_machine_root};
pub use ids::{BlockId, Guid, Level, ObjectId, ObjsetId, Txg, VdevId};
pub use memory::{MemoryBudget, MemoryExceeded, MemoryLease};
pub use nearest::{did_you_mean, nearest, question};
pub use places::{DEVICE_SCHEMES, is_url, listed, scheme};
pub use size::{SizeError, parse_size};

/// The unit of sizes and offsets in block pointers: 512 bytes, whatever the device's sector is.
pub const SECTOR_SIZE: u64 = 512;

/// The largest block the format allows: 16 MiB (`SPA_MAXBLOCKSIZE`).
pub const BLOCK_SIZE_MAX: u64 = 16 << 20;
