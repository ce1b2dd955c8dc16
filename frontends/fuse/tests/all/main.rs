//! Mounts made by the real kernel of trees in memory.

mod common;
mod lifecycle;
mod reading;
mod trouble;
