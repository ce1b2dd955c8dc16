//! What the space of top-level vdevs is for.

/// What a top-level vdev's space is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AllocationClass {
    /// Everything that has no class of its own.
    #[default]
    Normal,
    /// Intent logs only.
    Log,
    /// Metadata, and small blocks if so configured.
    Special,
    /// Dedup tables.
    Dedup,
}
