//! Volumes that are changed, in a pool in memory.

#[path = "../../../dmu/tests/all/common/mod.rs"]
mod pool;

mod writing;
