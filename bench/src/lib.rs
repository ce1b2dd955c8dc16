//! Measurements, one module per layer, taken so that they can stand beside OpenZFS's own.

pub mod codec;
