//! Damaged blocks: how they are noted, listed and forgotten.

pub(crate) mod error_notes;
pub(crate) mod errors;
