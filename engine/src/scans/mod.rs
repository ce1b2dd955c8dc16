//! Walks over all of a pool.

pub(crate) mod scrub;
pub(crate) mod verify;
