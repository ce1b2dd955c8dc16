//! What can be wrong with a redaction, in OpenZFS's words where it has some.

use cenote_base::ObjectId;
use cenote_dmu::DmuError;
use cenote_dsl::{DatasetName, DslError};

/// A redaction bookmark cannot be made or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedactionError {
    /// A redaction snapshot did not grow out of the snapshot.
    #[error("redaction snapshot must be descendent of snapshot being redacted")]
    NotADescendant,
    /// One of the snapshots was received redacted.
    #[error("attempted to redact redacted dataset or with respect to redacted dataset")]
    Redacted,
    /// There are more redaction snapshots than a list can name.
    #[error("too many redaction snapshots specified")]
    TooMany,
    /// The pool lacks the feature.
    #[error("redaction bookmarks feature not enabled")]
    FeatureDisabled,
    /// There is such a bookmark.
    #[error("specified redaction bookmark ({name}) provided already exists")]
    Exists {
        /// The bookmark.
        name: DatasetName,
    },
    /// There is an incomplete list of other snapshots.
    #[error("attempted to resume redaction  with a mismatched redaction list")]
    Mismatch,
    /// The bookmark has no list.
    #[error("not a redaction bookmark")]
    NoList,
    /// The list does not reach the end.
    #[error("incomplete redaction bookmark provided")]
    Incomplete,
    /// The list was destroyed, or replaced, while it was read.
    #[error("redaction bookmark '{name}' was destroyed meanwhile")]
    Gone {
        /// The bookmark.
        name: DatasetName,
    },
    /// The list is damaged.
    #[error("redaction list {object}: {problem}")]
    Damaged {
        /// The list's object in the meta object set.
        object: ObjectId,
        /// What is wrong.
        problem: &'static str,
    },
    /// The caller wants no more.
    #[error("interrupted")]
    Interrupted,
    /// Something cannot be read.
    #[error(transparent)]
    Dsl(#[from] DslError),
}

impl From<DmuError> for RedactionError {
    fn from(error: DmuError) -> Self {
        Self::Dsl(error.into())
    }
}
