//! What was written and is not in the store yet, in order.
//!
//! Reads see the newest bytes of each sector here before they look at the map. Uploads take a
//! beginning of the queue, a *batch*: at best up to a flush, so that the store is always as of one.

use crate::extent_map::{ExtentMap, Piece, Slice};
use crate::format::Class;
use crate::format::commit::LogPoint;
use crate::log::{Event, Logged, Payload};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// The place of an entry in the order of all that was ever queued, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sequence(pub(crate) u64);

/// An entry of the queue.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) sequence: Sequence,
    pub(crate) event: Event,
    pub(crate) payload: Option<Arc<Payload>>,
    /// The point of the log behind it.
    pub(crate) end: LogPoint,
    /// When it was queued, by the monotonic clock.
    at: Duration,
}

/// The newest that was written to a range.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) sequence: Sequence,
    /// The bytes, and where in them in sectors; `None` if it was discarded.
    pub(crate) bytes: Option<(Arc<Payload>, u64)>,
    pub(crate) class: Class,
}

impl PartialEq for Pending {
    fn eq(&self, other: &Self) -> bool {
        let same_bytes = match (&self.bytes, &other.bytes) {
            (None, None) => true,
            (Some((own, at)), Some((payload, sector))) => Arc::ptr_eq(own, payload) && at == sector,
            _ => false,
        };
        self.sequence == other.sequence && same_bytes
    }
}

impl Slice for Pending {
    fn advanced(&self, sectors: u64) -> Self {
        let mut advanced = self.clone();
        if let Some((_, sector)) = &mut advanced.bytes {
            *sector += sectors;
        }
        advanced
    }
}

/// What a commit will have.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The newest in it of each range.
    pub(crate) image: ExtentMap<Pending>,
    /// The last entry in it.
    pub(crate) last: Sequence,
    /// The point of the log behind it.
    pub(crate) end: LogPoint,
    /// Whether it ends at a flush.
    pub(crate) ends_flush: bool,
    /// The newest transaction group that is named in it.
    pub(crate) mark: Option<(u64, bool)>,
}

/// When a batch is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) bytes: u64,
    pub(crate) bytes_max: u64,
    pub(crate) age: Duration,
}

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    entries: VecDeque<Entry>,
    pending: ExtentMap<Pending>,
    /// Bytes of payloads in it.
    bytes: u64,
    last: Sequence,
    /// The last entry that is in the store.
    committed: Sequence,
    /// The last entry that a caller wants in the store.
    wanted: Sequence,
    /// Whether a caller waits for room, so that the middle of a flush will do.
    needs_room: bool,
    /// Entries before this have no copies in memory any more.
    dropped: Sequence,
}

impl Queue {
    /// Adds an entry.
    pub(crate) fn push(&mut self, logged: Logged, at: Duration) -> Sequence {
        self.last.0 += 1;
        let sequence = self.last;
        let (start, sectors, class, bytes) = match logged.event {
            Event::Write {
                start,
                sectors,
                class,
            } => {
                let payload = logged.payload.clone().expect("a write has bytes");
                self.bytes += payload.length() as u64;
                (start, sectors, class, Some((payload, 0)))
            }
            Event::Discard { start, sectors } => (start, sectors, Class::Contents, None),
            _ => (0, 0, Class::Metadata, None),
        };
        let pending = Pending {
            sequence,
            bytes,
            class,
        };
        self.pending.insert(start, sectors, pending);
        self.entries.push_back(Entry {
            sequence,
            event: logged.event,
            payload: logged.payload,
            end: logged.end,
            at,
        });
        sequence
    }

    /// The newest that is pending in a range.
    pub(crate) fn overlaps(&self, start: u64, sectors: u64) -> Vec<Piece<Pending>> {
        self.pending.overlaps(start, sectors)
    }

    /// The last entry.
    pub(crate) fn last(&self) -> Sequence {
        self.last
    }

    /// Whether everything up to `sequence` is in the store.
    pub(crate) fn is_committed(&self, sequence: Sequence) -> bool {
        self.committed >= sequence
    }

    /// Whether nothing was queued since a flush.
    pub(crate) fn ends_with_flush(&self) -> bool {
        let last = self.entries.back();
        last.is_none_or(|entry| entry.event == Event::Flush)
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Since when the oldest change waits, by the monotonic clock.
    pub(crate) fn oldest(&self) -> Option<Duration> {
        let change = self.entries.iter().find(|entry| is_change(&entry.event));
        change.map(|entry| entry.at)
    }

    /// Requests that `sequence` is uploaded, for a caller that waits.
    pub(crate) fn want(&mut self, sequence: Sequence) {
        self.wanted = self.wanted.max(sequence);
    }

    /// Requests room in the log, for a caller that waits.
    pub(crate) fn want_room(&mut self) {
        self.needs_room = true;
    }

    /// Whether a caller waits for room; clears the request.
    pub(crate) fn take_room_wish(&mut self) -> bool {
        std::mem::take(&mut self.needs_room)
    }

    /// When a batch becomes due by its age, after [`Self::cut`] gave none.
    pub(crate) fn due_at(&self, limits: &Limits) -> Option<Duration> {
        let oldest = self.oldest()?;
        match self.is_due_now(limits) {
            // It waits for a flush, not for time.
            true => None,
            false => Some(oldest.saturating_add(limits.age)),
        }
    }

    fn is_due_now(&self, limits: &Limits) -> bool {
        self.wanted > self.committed || self.needs_room || self.bytes >= limits.bytes
    }

    /// The batch that is due at the time `now`, if one is.
    pub(crate) fn cut(&mut self, limits: &Limits, now: Duration) -> Option<Batch> {
        self.skip_idle();
        let is_old = self
            .oldest()
            .is_some_and(|oldest| now >= oldest.saturating_add(limits.age));
        if self.entries.is_empty() || !(self.is_due_now(limits) || is_old) {
            return None;
        }
        let (count, ends_flush) = self.cut_length(limits)?;
        let mut batch = Batch {
            image: ExtentMap::default(),
            last: Sequence(0),
            end: LogPoint::default(),
            ends_flush,
            mark: None,
        };
        for entry in self.entries.iter().take(count) {
            batch.add(entry);
        }
        Some(batch)
    }

    /// Forgets flushes at the front, behind which nothing has changed: they need no commit.
    fn skip_idle(&mut self) {
        let is_idle = |entry: &Entry| matches!(entry.event, Event::Flush | Event::Session(_));
        while self.entries.front().is_some_and(is_idle) {
            if let Some(entry) = self.entries.pop_front() {
                self.committed = entry.sequence;
            }
        }
    }

    /// How many entries a batch has, and whether it ends at a flush.
    fn cut_length(&self, limits: &Limits) -> Option<(usize, bool)> {
        let mut bytes = 0;
        let mut at_flush = None;
        let mut most = 0;
        for (index, entry) in self.entries.iter().enumerate() {
            let payload = entry.payload.as_ref();
            bytes += payload.map_or(0, |payload| payload.length() as u64);
            if bytes > limits.bytes_max && index > 0 {
                break;
            }
            most = index + 1;
            if entry.event == Event::Flush {
                at_flush = Some(most);
            }
        }
        let is_cut_short = most < self.entries.len();
        match at_flush {
            Some(count) => Some((count, true)),
            None if is_cut_short || self.needs_room => Some((most, false)),
            None => None,
        }
    }

    /// Says that a batch is in the store, and its changes in the map.
    pub(crate) fn commit(&mut self, batch: &Batch) {
        for piece in batch.image.iter() {
            let is_old = |pending: &Pending| pending.sequence <= batch.last;
            self.pending.remove_if(piece.start, piece.sectors, is_old);
        }
        let is_in = |entry: &Entry| entry.sequence <= batch.last;
        while self.entries.front().is_some_and(is_in) {
            if let Some(entry) = self.entries.pop_front() {
                self.bytes -= entry.payload.map_or(0, |payload| payload.length() as u64);
            }
        }
        self.committed = batch.last;
        self.needs_room = false;
        self.skip_idle();
    }

    /// Forgets copies in memory, the oldest first, until `freed` says that it is enough.
    pub(crate) fn drop_copies(&mut self, freed: impl Fn() -> bool) {
        let from = self
            .entries
            .partition_point(|entry| entry.sequence <= self.dropped);
        for entry in self.entries.iter().skip(from) {
            if freed() {
                break;
            }
            if let Some(payload) = &entry.payload {
                payload.drop_copy();
            }
            self.dropped = entry.sequence;
        }
    }
}

fn is_change(event: &Event) -> bool {
    matches!(event, Event::Write { .. } | Event::Discard { .. })
}

impl Batch {
    fn add(&mut self, entry: &Entry) {
        self.last = entry.sequence;
        self.end = entry.end;
        let (start, sectors, class, bytes) = match entry.event {
            Event::Write {
                start,
                sectors,
                class,
            } => {
                let payload = entry.payload.clone().expect("a write has bytes");
                (start, sectors, class, Some((payload, 0)))
            }
            Event::Discard { start, sectors } => (start, sectors, Class::Contents, None),
            Event::Mark { txg, is_complete } => {
                self.mark = Some((txg, is_complete));
                return;
            }
            Event::Flush | Event::Session(_) => return,
        };
        let pending = Pending {
            sequence: entry.sequence,
            bytes,
            class,
        };
        self.image.insert(start, sectors, pending);
    }
}
