//! Why an open dataset takes no change.

use cenote_dmu::DmuError;
use cenote_dsl::Limit;

/// Why a dataset may not grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpaceRefusal {
    /// The pool is full, or what is left is reserved.
    #[error("there is no space left")]
    NoSpace,
    /// A quota of a dataset is reached.
    #[error("a quota is used up")]
    Quota,
}

impl From<Limit> for SpaceRefusal {
    fn from(limit: Limit) -> Self {
        match limit {
            Limit::Pool => Self::NoSpace,
            Limit::Quota => Self::Quota,
        }
    }
}

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
