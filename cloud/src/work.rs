//! What the uploader knows from step to step.

use crate::format::{ObjectNumber, WriterId};
use crate::map::Fetched;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// What the uploader knows.
#[derive(Debug)]
pub(crate) struct Work {
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
    /// When the newest commit was last found in the store, by the monotonic clock.
    pub(crate) ensured: Option<Duration>,
    /// Pages that the next full checkpoint writes again, because the store has lost them.
    pub(crate) rescued: Fetched,
    /// Damaged objects that are not here as a whole.
    pub(crate) given_up: BTreeSet<ObjectNumber>,
    /// What was written down of damaged objects.
    pub(crate) noted: Vec<u8>,
    /// What the wall clock and the monotonic one said at the last step.
    pub(crate) clocks: Option<(Duration, Duration)>,
}

impl Work {
    /// That of a device whose writer before left this `unfinished`.
    pub(crate) fn new(unfinished: Option<(WriterId, ObjectNumber)>) -> Self {
        Self {
            unfinished,
            clock: None,
            compaction: VecDeque::new(),
            has_moved: false,
            has_begun: false,
            clean_at: None,
            uploaded: 0,
            ensured: None,
            rescued: Fetched::new(),
            given_up: BTreeSet::new(),
            noted: Vec::new(),
            clocks: None,
        }
    }
}
