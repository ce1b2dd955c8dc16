//! Where a stream goes.

use cenote_dataset::OpenDataset;
use cenote_dsl::write::ResumePoint;

/// Where a stream goes.
pub struct Target<'a> {
    /// The dataset, which is a head's.
    pub dataset: &'a OpenDataset,
    /// Where an earlier attempt stopped; zeros if there was none.
    pub resumed: ResumePoint,
    /// Whether another stream may go on where this one is cut.
    pub is_resumable: bool,
    /// Objects that the stream does not have are to go: it is full, and the head is a clone.
    pub replaces: bool,
    /// Asked now and then whether to give up.
    pub is_cancelled: &'a dyn Fn() -> bool,
}
