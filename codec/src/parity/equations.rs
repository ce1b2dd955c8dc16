//! What generating and reconstructing have in common: the factors of the parity equations, and how
//! many columns they are good for.

use super::field;

/// The most parity columns there can be.
pub const PARITY_MAX: usize = 3;

/// Why lost columns cannot be reconstructed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReconstructError {
    /// More columns are lost than there is parity.
    #[error("{lost} columns are lost, but there are only {parity} parity columns")]
    TooManyLost {
        /// Columns lost.
        lost: usize,
        /// Parity columns of the layout.
        parity: usize,
    },
    /// A lost column was named twice or does not exist.
    #[error("{0} is no column, or is named twice")]
    BadColumn(usize),
}

/// The factor of data column `column` of `data_count` in parity row `row`.
pub(super) fn factor(row: usize, column: usize, data_count: usize) -> u8 {
    field::power_of_two(row * (data_count - 1 - column))
}
