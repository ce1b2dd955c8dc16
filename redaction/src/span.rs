//! Runs of blocks, and places among them.

use cenote_base::{BlockId, ObjectId};
use cenote_ondisk::redaction_list::{RECORD_COUNT_MAX, RedactionRecord};

/// A block's place: the order of places is that of lists and of streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The object.
    pub object: ObjectId,
    /// The block in it.
    pub block: u64,
}

impl Place {
    /// The first block of an object.
    pub fn of_object(object: ObjectId) -> Self {
        Self { object, block: 0 }
    }

    /// The place behind this one.
    pub(crate) fn next(self) -> Self {
        match self.block.checked_add(1) {
            Some(block) => Self { block, ..self },
            None => Self::of_object(ObjectId(self.object.0.saturating_add(1))),
        }
    }

    /// The place before this one; the first place is its own.
    pub(crate) fn previous(self) -> Self {
        match (self.block.checked_sub(1), self.object.0.checked_sub(1)) {
            (Some(block), _) => Self { block, ..self },
            (None, Some(object)) => Self {
                object: ObjectId(object),
                block: u64::MAX,
            },
            (None, None) => self,
        }
    }
}

/// A run of blocks of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The object.
    pub object: ObjectId,
    /// The first block.
    pub first: u64,
    /// The last block.
    pub last: u64,
    /// Bytes of a block.
    pub block_size: u64,
}

impl Span {
    /// The first place.
    pub fn start(&self) -> Place {
        Place {
            object: self.object,
            block: self.first,
        }
    }

    /// The last place.
    pub fn end(&self) -> Place {
        Place {
            object: self.object,
            block: self.last,
        }
    }

    /// The part from `from` on, and before `to`.
    pub(crate) fn within(self, from: Place, to: Option<Place>) -> Option<Self> {
        let mut part = self;
        if from > self.end() || to.is_some_and(|to| to <= self.start()) {
            return None;
        }
        if from.object == self.object {
            part.first = part.first.max(from.block);
        }
        if let Some(to) = to.filter(|to| to.object == self.object) {
            // It begins before `to`, so `to` is not the first block.
            part.last = part.last.min(to.block - 1);
        }
        Some(part)
    }

    /// What two runs have in common.
    pub(crate) fn and(&self, other: &Self) -> Option<Self> {
        let common = Self {
            first: self.first.max(other.first),
            last: self.last.min(other.last),
            ..*self
        };
        (self.object == other.object && common.first <= common.last).then_some(common)
    }

    /// Appends to runs in order; what touches the last one makes that longer.
    pub(crate) fn append_to(self, runs: &mut Vec<Self>) {
        match runs.last_mut() {
            Some(before)
                if before.object == self.object && self.first <= before.last.saturating_add(1) =>
            {
                before.last = before.last.max(self.last);
            }
            _ => runs.push(self),
        }
    }

    /// The records of a list for it: one, unless it has more blocks than a record can count.
    pub(crate) fn records(self) -> impl Iterator<Item = RedactionRecord> {
        let blocks = self.last - self.first;
        (0..=blocks / RECORD_COUNT_MAX).map(move |index| {
            let done = index * RECORD_COUNT_MAX;
            RedactionRecord {
                object: self.object,
                block: BlockId(self.first + done),
                block_size: self.block_size,
                count: (blocks - done).saturating_add(1).min(RECORD_COUNT_MAX),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(object: u64, first: u64, last: u64) -> Span {
        Span {
            object: ObjectId(object),
            first,
            last,
            block_size: 4096,
        }
    }

    fn place(object: u64, block: u64) -> Place {
        let object = ObjectId(object);
        Place { object, block }
    }

    #[test]
    fn runs_are_cut_and_joined() {
        let run = span(5, 10, 20);
        assert_eq!(
            run.within(place(5, 12), Some(place(5, 14))),
            Some(span(5, 12, 13))
        );
        assert_eq!(run.within(place(4, 90), Some(place(6, 0))), Some(run));
        assert_eq!(run.within(place(5, 21), None), None);
        assert_eq!(run.within(place(0, 0), Some(place(5, 10))), None);
        assert_eq!(run.and(&span(5, 20, 30)), Some(span(5, 20, 20)));
        assert_eq!(run.and(&span(6, 10, 20)), None);
        assert_eq!(run.and(&span(5, 21, 30)), None);
        let mut runs = vec![run];
        span(5, 21, 22).append_to(&mut runs);
        span(5, 15, 16).append_to(&mut runs);
        span(5, 24, 25).append_to(&mut runs);
        assert_eq!(runs, [span(5, 10, 22), span(5, 24, 25)]);
    }

    #[test]
    fn places_have_neighbours() {
        for (before, after) in [
            (place(5, 7), place(5, 8)),
            (place(5, u64::MAX), place(6, 0)),
        ] {
            assert_eq!((before.next(), after.previous()), (after, before));
        }
        assert_eq!(place(0, 0).previous(), place(0, 0));
    }

    #[test]
    fn long_runs_take_several_records() {
        let counts = |last| -> Vec<u64> {
            let records = span(1, 0, last).records();
            records.map(|record| record.count).collect()
        };
        assert_eq!(counts(0), [1]);
        assert_eq!(counts(RECORD_COUNT_MAX - 1), [RECORD_COUNT_MAX]);
        assert_eq!(counts(RECORD_COUNT_MAX), [RECORD_COUNT_MAX, 1]);
    }
}
