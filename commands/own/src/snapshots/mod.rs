//! Cenote's own commands about snapshots: `cenote space`.

pub mod space;
