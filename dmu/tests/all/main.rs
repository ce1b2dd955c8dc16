//! Object sets that are read, written and synced in a pool in memory, or read from golden pools.

mod accounting;
mod common;
mod concurrent;
mod gate;
mod golden;
mod lookups;
mod memory_only;
mod model;
mod pointers;
mod traverse;
mod zap_writing;
