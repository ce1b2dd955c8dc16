//! What was written and is not flushed.
//!
//! A server that ends may lose what it answered and did not flush. The client keeps those writes,
//! in the order in which they were begun, and sends them again when it is connected anew; a flush
//! that succeeds lets go of the writes that were answered before it was sent.
//!
//! *Invariant*: a write is here before it is sent for the first time, and at least until a flush
//! covers it, or its caller has an error.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A write.
#[derive(Debug)]
struct Entry {
    offset: u64,
    bytes: Arc<[u8]>,
    /// The number of its answer.
    answered: Option<u64>,
}

/// Writes that are not flushed.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// By the order in which they began.
    entries: BTreeMap<u64, Entry>,
    bytes: u64,
    /// Answers so far.
    answers: u64,
}

impl Journal {
    /// Notes a write that is about to be sent. Numbers ascend.
    pub fn begin(&mut self, number: u64, offset: u64, bytes: Arc<[u8]>) {
        self.bytes += bytes.len() as u64;
        let entry = Entry {
            offset,
            bytes,
            answered: None,
        };
        self.entries.insert(number, entry);
    }

    /// Notes that a write was answered.
    pub fn answered(&mut self, number: u64) {
        if let Some(entry) = self.entries.get_mut(&number) {
            self.answers += 1;
            entry.answered = Some(self.answers);
        }
    }

    /// Forgets a write that failed.
    pub fn forget(&mut self, number: u64) {
        if let Some(entry) = self.entries.remove(&number) {
            self.bytes -= entry.bytes.len() as u64;
        }
    }

    /// The moment before a flush: writes that are answered up to here are covered by it.
    pub fn mark(&self) -> u64 {
        self.answers
    }

    /// Lets go of writes that a flush has covered.
    pub fn flushed(&mut self, mark: u64) {
        let bytes = &mut self.bytes;
        self.entries.retain(|_, entry| {
            let is_kept = entry.answered.is_none_or(|answered| answered > mark);
            if !is_kept {
                *bytes -= entry.bytes.len() as u64;
            }
            is_kept
        });
    }

    /// Bytes that are kept.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Answered writes, in order: number, offset, bytes.
    pub fn to_send_again(&self) -> Vec<(u64, u64, Arc<[u8]>)> {
        let answered = self.entries.iter().filter(|(_, e)| e.answered.is_some());
        answered
            .map(|(number, entry)| (*number, entry.offset, Arc::clone(&entry.bytes)))
            .collect()
    }
}

/// How many of the first writes can be under way at once: no two of them overlap, and together
/// they have at most `bytes_max` bytes, or it is one.
pub(crate) fn batch(writes: &[(u64, u64, Arc<[u8]>)], count_max: usize, bytes_max: u64) -> usize {
    let mut ranges: BTreeMap<u64, u64> = BTreeMap::new();
    let mut bytes = 0;
    for (count, (_, offset, data)) in writes.iter().enumerate() {
        let end = offset + data.len() as u64;
        let before = ranges.range(..end).next_back();
        let overlaps = before.is_some_and(|(_, before_end)| before_end > offset);
        bytes += data.len() as u64;
        if overlaps || count == count_max || (count > 0 && bytes > bytes_max) {
            return count;
        }
        ranges.insert(*offset, end);
    }
    writes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(length: usize) -> Arc<[u8]> {
        vec![0; length].into()
    }

    #[test]
    fn a_flush_covers_what_was_answered_before_it() {
        let mut journal = Journal::default();
        for number in 1..=4 {
            journal.begin(number, number * 10, bytes(10));
        }
        journal.answered(2);
        journal.answered(1);
        let mark = journal.mark();
        journal.answered(3);
        let numbers = |journal: &Journal| {
            let writes = journal.to_send_again();
            writes.iter().map(|write| write.0).collect::<Vec<_>>()
        };
        assert_eq!(numbers(&journal), [1, 2, 3], "in the order of their begin");
        journal.flushed(mark);
        assert_eq!((numbers(&journal), journal.bytes()), (vec![3], 20));
        journal.forget(4);
        journal.flushed(journal.mark());
        assert_eq!(journal.bytes(), 0);
    }

    #[test]
    fn writes_that_overlap_are_not_sent_at_once() {
        let write = |offset: u64, length: usize| (0, offset, bytes(length));
        let writes = [write(0, 10), write(20, 10), write(10, 10), write(15, 1)];
        assert_eq!(batch(&writes, 64, 1000), 3);
        assert_eq!(batch(&writes, 2, 1000), 2);
        assert_eq!(batch(&writes, 64, 25), 2);
        assert_eq!(batch(&writes, 64, 1), 1);
        assert_eq!(batch(&writes[2..], 64, 1000), 1);
        let inside = [write(0, 100), write(200, 1), write(50, 1)];
        assert_eq!(batch(&inside, 64, 1000), 2);
    }
}
