//! cenote-pool
