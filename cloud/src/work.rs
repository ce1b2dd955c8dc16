//! What the uploader knows from step to step.

use crate::format::commit::LogPoint;
use crate::format::{CommitNumber, ObjectNumber, WriterId};
use std::collections::VecDeque;
use std::time::Duration;

/// What the uploader knows.
#[derive(Debug)]
pub(crate) struct Work {
    /// The point up to which the store has everything, and the commit that says so.
    pub(crate) trim: (LogPoint, CommitNumber),
    /// How many seconds the store's clock is ahead of ours, once it is known.
    pub(crate) clock: Option<i64>,
    /// Objects that are to be compacted, the emptiest first.
    pub(crate) compaction: VecDeque<ObjectNumber>,
    /// Whether compaction has moved something since the last full checkpoint.
    pub(crate) has_moved: bool,
    /// A writer that did not end in order, and the first number that it did not commit.
    pub(crate) unfinished: Option<(WriterId, ObjectNumber)>,
    /// Whether something was written since the device was opened.
    pub(crate) has_begun: bool,
    /// When something is old enough to be removed, by the monotonic clock.
    pub(crate) clean_at: Option<Duration>,
    /// Bytes that writers had uploaded since compaction had a turn.
    pub(crate) uploaded: u64,
    /// What the wall clock and the monotonic one said at the last step.
    pub(crate) clocks: Option<(Duration, Duration)>,
}

impl Work {
    /// That of a device whose newest commit is `commit`.
    pub(crate) fn new(
        point: LogPoint,
        commit: CommitNumber,
        unfinished: Option<(WriterId, ObjectNumber)>,
    ) -> Self {
        Self {
            unfinished,
            trim: (point, commit),
            clock: None,
            compaction: VecDeque::new(),
            has_moved: false,
            has_begun: false,
            clean_at: None,
            uploaded: 0,
            clocks: None,
        }
    }
}
