//! Where a stream goes.

use cenote_dataset::OpenDataset;
use cenote_dsl::write::ResumePoint;

/// Where a stream goes.
pub struct Target<'a> {
    /// The dataset, which is a head's.
    pub dataset: &'a OpenDataset,
    /// Where an earlier attempt stopped; zeros if there was none.
    pub resumed: ResumePoint,
    /// Whether the receive can be resumed if this stream is cut.
    pub is_resumable: bool,
    /// Objects that are not in the stream are removed: it is full, and the head is a clone.
    pub replaces: bool,
    /// Polled to find out whether the caller cancelled the receive.
    pub is_cancelled: &'a dyn Fn() -> bool,
}
