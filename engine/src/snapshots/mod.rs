//! Snapshots: made and destroyed (`change`), what holds them, and how they differ.

pub(crate) mod change;
pub(crate) mod diff;
pub(crate) mod holds;
