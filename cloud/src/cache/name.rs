//! What names a range of bytes for ever: writer and number of data, checkpoint and part of pages.

use crate::format::{CommitNumber, ObjectNumber, WriterId};

/// An object in the store, by what names it for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    /// A data object.
    Data(WriterId, ObjectNumber),
    /// An object with pages of the map.
    Pages(CommitNumber, u32),
}
