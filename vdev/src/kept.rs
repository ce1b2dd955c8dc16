//! What devices that come back have of what was written before they went away.
//!
//! A device is known again by its labels. These do not tell whether it has what was written after
//! them. Whoever knows of such blocks looks for each of them on the devices, and notes here what
//! it found.

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
