//! What was written and is not flushed.
//!
//! A server that ends may lose writes that it answered and did not flush. The client keeps those
//! writes in the order in which they were begun, and sends them again after it has reconnected. A
//! flush that succeeds releases the writes that were answered before it was sent.
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
    /// Its bytes may have changed on the disk since.
    is_spoiled: bool,
}

/// Writes to check for one that nothing overlaps.
const PROOFS_MAX: usize = 16;

/// Writes that are not flushed.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// By the order in which they began.
    entries: BTreeMap<u64, Entry>,
    bytes: u64,
    /// Answers so far.
    answers: u64,
    /// A write that a flush has covered, and that nothing has overwritten since.
    proof: Option<(u64, Arc<[u8]>)>,
}

/// Whether two ranges have a byte in common.
fn overlap(offset: u64, length: u64, (other, bytes): (u64, &[u8])) -> bool {
    offset < other + bytes.len() as u64 && other < offset + length
}

impl Journal {
    /// Notes a write that is about to be sent. Numbers ascend.
    pub fn begin(&mut self, number: u64, offset: u64, bytes: Arc<[u8]>) {
        self.bytes += bytes.len() as u64;
        self.drop_proof(offset, bytes.len() as u64);
        let entry = Entry {
            offset,
            bytes,
            answered: None,
            is_spoiled: false,
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
            // Part of it may be on the disk.
            self.changed(entry.offset, entry.bytes.len() as u64);
        }
    }

    /// The moment before a flush: writes that are answered up to here are covered by it.
    pub fn mark(&self) -> u64 {
        self.answers
    }

    /// Notes that bytes of a range may be anything by now.
    pub fn changed(&mut self, offset: u64, length: u64) {
        self.drop_proof(offset, length);
        for entry in self.entries.values_mut() {
            entry.is_spoiled |= overlap(offset, length, (entry.offset, &entry.bytes));
        }
    }

    fn drop_proof(&mut self, offset: u64, length: u64) {
        let proof = self.proof.as_ref();
        if proof.is_some_and(|(at, bytes)| overlap(offset, length, (*at, bytes))) {
            self.proof = None;
        }
    }

    /// Lets go of writes that a flush has covered.
    pub fn flushed(&mut self, mark: u64) {
        let is_covered = |entry: &Entry| entry.answered.is_some_and(|answered| answered <= mark);
        let newest = self.entries.iter().rev();
        let newest = newest.filter(|(_, entry)| is_covered(entry) && !entry.is_spoiled);
        let newest = newest.take(PROOFS_MAX).find(|found| {
            // Two writes of one place that are both under way have no order.
            let mut others = self.entries.iter().filter(|(number, _)| *number != found.0);
            let (at, length) = (found.1.offset, found.1.bytes.len() as u64);
            !others.any(|(_, other)| overlap(at, length, (other.offset, &other.bytes)))
        });
        if let Some((_, entry)) = newest {
            self.proof = Some((entry.offset, Arc::clone(&entry.bytes)));
        }
        let bytes = &mut self.bytes;
        self.entries.retain(|_, entry| {
            let is_kept = !is_covered(entry);
            if !is_kept {
                *bytes -= entry.bytes.len() as u64;
            }
            is_kept
        });
    }

    /// A write that must be there whatever happened to the server since: place and bytes.
    pub fn proof(&self) -> Option<(u64, Arc<[u8]>)> {
        self.proof.clone()
    }

    /// Lets go of all writes, because others may write by now.
    pub fn clear(&mut self) {
        (self.bytes, self.proof) = (0, None);
        self.entries.clear();
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

    /// A server that came back with another disk under the old name was written to.
    #[test]
    fn the_newest_write_that_was_flushed_and_not_changed_is_the_proof() {
        let mut journal = Journal::default();
        let write = |journal: &mut Journal, number: u64, offset: u64, byte: u8| {
            journal.begin(number, offset, vec![byte; 100].into());
            journal.answered(number);
        };
        write(&mut journal, 1, 0, 1);
        write(&mut journal, 2, 1000, 2);
        write(&mut journal, 3, 1050, 3);
        assert_eq!(journal.proof(), None, "nothing is flushed");
        let mark = journal.mark();
        journal.begin(4, 2000, vec![4; 100].into());
        journal.flushed(mark);
        let proof = journal.proof().expect("a write");
        assert_eq!((proof.0, proof.1[0]), (0, 1), "the others overlap");
        write(&mut journal, 5, 3000, 5);
        journal.flushed(journal.mark());
        assert_eq!(journal.proof().expect("a write").0, 3000);
        journal.changed(2900, 100);
        journal.changed(3100, 100);
        assert!(journal.proof().is_some(), "beside it");
        journal.changed(3099, 1);
        assert_eq!(journal.proof(), None);
        write(&mut journal, 6, 4000, 6);
        journal.begin(7, 4050, vec![7; 100].into());
        journal.forget(7);
        journal.flushed(journal.mark());
        assert_eq!(journal.proof(), None, "half of the failed one may be there");
        journal.clear();
        assert_eq!((journal.bytes(), journal.to_send_again().len()), (0, 0));
    }
}
