//! Walks over all of a pool.

pub(crate) mod verify;
