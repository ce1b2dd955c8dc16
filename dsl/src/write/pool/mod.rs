//! What the pool keeps for all datasets: its directory, features, properties and notes.

pub(crate) mod error_log;
pub(crate) mod log_notes;
pub(crate) mod metadata;
pub(crate) mod new_pool;
pub(crate) mod pool_metadata;
pub(crate) mod pool_properties;
pub(crate) mod scan_follow;
