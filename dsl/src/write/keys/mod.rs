//! Keys of encrypted datasets: made, changed, and kept with their roots.

pub(crate) mod encryption;
pub(crate) mod encryption_roots;
pub(crate) mod promote_keys;
pub(crate) mod received;
