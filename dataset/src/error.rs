//! Why an open dataset takes no change.

use crate::space::SpaceRefusal;
use cenote_dmu::DmuError;

/// A dataset takes no change.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// Its pool takes no changes, or its objects cannot be read.
    #[error(transparent)]
    Dmu(#[from] DmuError),
    /// It may not grow.
    #[error(transparent)]
    Space(#[from] SpaceRefusal),
    /// It was closed for good, and takes no changes any more.
    #[error("the dataset is closed")]
    Closed,
}
