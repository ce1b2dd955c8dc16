//! Which copy of its bytes a device gives: a verification is about the store's.

/// Which copy a read is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The nearest.
    Nearest,
    /// The store's, or the local log's of what the store does not have yet.
    Stored,
}
