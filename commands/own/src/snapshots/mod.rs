//! Commands about snapshots of ours: `cenote space`.

pub mod space;
