//! File systems that are changed, synced, and opened again.

#[path = "../../dmu/tests/common/mod.rs"]
#[allow(dead_code, reason = "not all of it is needed here")]
mod pool;

#[path = "writing/mod.rs"]
mod writing;
