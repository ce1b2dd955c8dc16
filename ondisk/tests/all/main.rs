//! The decoders on pools made by OpenZFS, and on bytes that no software would write.

mod golden_pools;
mod hostile;
