//! Snapshots: creating and destroying them (`change`), holds, clones, bookmarks, differences, and
//! their space (`space`).

mod bookmarks;
pub(crate) mod change;
mod clones;
pub(crate) mod diff;
pub(crate) mod holds;
mod names;
pub(crate) mod redact;
pub(crate) mod space;
