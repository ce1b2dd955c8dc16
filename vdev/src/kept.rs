//! Which of the writes from before an outage the devices have kept.
//!
//! A device that returns is recognized by its labels. These do not tell whether it has the blocks
//! written after them. A layer that knows such blocks looks for each of them on the devices, and
//! notes the result here.

use cenote_base::Guid;
use std::collections::HashSet;

/// What was found on devices that came back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// A block is on no device any more.
    pub is_lost: bool,
    /// Not every block that is not flushed could be looked for.
    pub is_unknown: bool,
    /// Leaves that lack a block.
    pub lacking: HashSet<Guid>,
}
