//! The decoders on pools made by OpenZFS, and on what nobody made.

mod golden_pools;
mod hostile;
