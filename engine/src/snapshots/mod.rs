//! Snapshots: made and destroyed (`change`), what holds them, clones, bookmarks, and how they
//! differ.

mod bookmarks;
pub(crate) mod change;
mod clones;
pub(crate) mod diff;
pub(crate) mod holds;
mod names;
mod rollback;
