//! Tables without which a pool cannot be written to: an import says which one is missing.

use crate::error::ImportError;

/// What was read, or which table is missing.
pub(super) fn needed<T, E: Into<ImportError>>(
    what: &str,
    read: Result<T, E>,
) -> Result<T, ImportError> {
    read.map_err(|error| ImportError::NeededForWriting {
        what: what.to_owned(),
        source: Box::new(error.into()),
    })
}
