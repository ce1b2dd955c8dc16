//! The parts of the developer's commands that tests call too.

#![forbid(unsafe_code)]

pub mod markdown;
pub mod tidy;
