//! Commands that read files and volumes of a pool, one per file.
//!
//! [`content`] finds data and holes. [`entry`] describes a file as JSON, [`show`] as text.

pub mod cat;
mod content;
pub mod cp;
pub mod du;
pub mod dump;
mod entry;
pub mod find;
mod find_condition;
pub mod ls;
pub mod manifest;
pub mod show;
pub mod stat;
pub mod tree;
