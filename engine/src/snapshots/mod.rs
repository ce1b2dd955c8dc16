//! Snapshots: made and destroyed (`change`), what holds them, clones, bookmarks, how they differ,
//! and what they take (`space`).

mod bookmarks;
pub(crate) mod change;
mod clones;
pub(crate) mod diff;
pub(crate) mod holds;
mod names;
pub(crate) mod space;
