//! What this side keeps so that the store can lose it, and what the store was found to have lost.

use crate::format::CommitNumber;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Objects whose bytes are kept in memory, because opening the device needs them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    /// The first commit of this session, which stops older writers that slept.
    pub(crate) first: Option<(CommitNumber, Arc<Vec<u8>>)>,
    /// The newest commit.
    pub(crate) last: Option<(CommitNumber, Arc<Vec<u8>>)>,
    /// The root of the newest checkpoint, and of the full one that it lies on.
    pub(crate) roots: BTreeMap<CommitNumber, Arc<Vec<u8>>>,
}

/// What a store was found to have lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// What was noticed first: `commit/42: it is missing`.
    pub what: String,
    /// Objects that were put again from this side.
    pub put_again: u64,
}
