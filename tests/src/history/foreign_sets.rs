//! What OpenZFS made in its turns, and how its datasets are known.

use std::path::PathBuf;

/// What OpenZFS made so far.
#[derive(Debug, Default)]
pub struct Foreign {
    /// Operations of a turn; 0 for no turns.
    pub operations: u64,
    pub(super) manifests: Vec<PathBuf>,
}

impl Foreign {
    /// Turns of so many operations.
    pub fn new(operations: u64) -> Self {
        Self {
            operations,
            ..Self::default()
        }
    }
}

/// Whether a dataset is one of those that OpenZFS made, by its name.
pub fn is_foreign(name: &str) -> bool {
    name.starts_with("tank/churn-")
}
