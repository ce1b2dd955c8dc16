//! File systems that are changed, synced, and opened again.

#[path = "../../dmu/tests/common/mod.rs"]
mod pool;

#[path = "writing/mod.rs"]
mod writing;
