//! A run.

/// A run.
pub struct Options {
    /// Chooses everything.
    pub seed: u64,
    /// Turns of each side.
    pub rounds: u64,
    /// Operations in each of Cenote's turns.
    pub operations: u64,
    /// Operations in each of OpenZFS's turns.
    pub foreign_operations: u64,
}
