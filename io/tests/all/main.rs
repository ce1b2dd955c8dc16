//! Blocks written through the pipeline and read back.

mod healing;
mod support;
mod writing;
