//! Blocks written through the pipeline and read back.

mod support;
mod writing;
