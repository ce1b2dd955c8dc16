//! Walks over all of a pool.

mod moments;
pub(crate) mod scrub;
pub(crate) mod verify;
