//! Times of last reads (format/3b 5).
//!
//! A read costs no transaction. It is marked in memory, by the rules of the properties `atime` and
//! `relatime`, and shown from there; marks are written to disk in batches: when there are many, or
//! when a file is read and the oldest mark is a minute old. A change of a file stores its mark, and
//! a sync and an unmount store all. A crash may lose the access times of the last minutes, as it
//! does with OpenZFS.

use super::Writer;
use super::store::Changes;
use crate::attributes::Attributes;
use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::time::Timestamp;
use crate::znode::Znode;
use cenote_base::ObjectId;
use cenote_base::rt::{Mutex, ranks};
use cenote_ondisk::system_attributes::Attribute;
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// When a read is noted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessTimes {
    /// Never: `atime=off`.
    #[default]
    Off,
    /// When the file was changed since its last noted read, or that is a day ago: `relatime=on`.
    Relative,
    /// Always: `relatime=off`.
    Strict,
}

const DAY: i64 = 24 * 60 * 60;
const SHARDS: usize = 16;
/// Marks that are kept at most; some 100 bytes each.
const MARKS_MAX: usize = 4096;
/// Seconds after which marks go to disk.
const AGE_MAX: i64 = 60;
/// Marks that go to disk in one transaction.
const STORED_AT_ONCE: usize = 64;

/// Reads that are not on disk yet.
#[derive(Debug, Default)]
pub(super) struct Reads {
    shards: [Mutex<HashMap<ObjectId, Timestamp>, ranks::AccessTimes>; SHARDS],
    count: AtomicUsize,
    /// When the oldest mark was made, in seconds.
    since: AtomicI64,
    /// Held while marks are stored: one does it for all.
    storing: Mutex<(), ranks::StoringTimes>,
}

impl Reads {
    fn shard(&self, id: ObjectId) -> &Mutex<HashMap<ObjectId, Timestamp>, ranks::AccessTimes> {
        &self.shards[usize::try_from(id.0 % SHARDS as u64).expect("below 16")]
    }

    /// Marks a read; whether it is time to store marks.
    fn mark(&self, id: ObjectId, now: Timestamp) -> bool {
        if self.shard(id).lock().insert(id, now).is_some() {
            return self.is_due(now);
        }
        if self.count.fetch_add(1, Ordering::Relaxed) == 0 {
            self.since.store(now.seconds, Ordering::Relaxed);
        }
        self.is_due(now)
    }

    fn is_due(&self, now: Timestamp) -> bool {
        let age = now
            .seconds
            .saturating_sub(self.since.load(Ordering::Relaxed));
        self.count.load(Ordering::Relaxed) >= MARKS_MAX || age >= AGE_MAX
    }

    fn get(&self, id: ObjectId) -> Option<Timestamp> {
        match self.count.load(Ordering::Relaxed) {
            0 => None,
            _ => self.shard(id).lock().get(&id).copied(),
        }
    }

    fn take(&self, id: ObjectId) -> Option<Timestamp> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let taken = self.shard(id).lock().remove(&id);
        if taken.is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        taken
    }

    fn ids(&self) -> Vec<ObjectId> {
        let of =
            |shard: &Mutex<HashMap<ObjectId, Timestamp>, ranks::AccessTimes>| -> Vec<ObjectId> {
                shard.lock().keys().copied().collect()
            };
        let mut ids: Vec<ObjectId> = self.shards.iter().flat_map(of).collect();
        // In order, since neighbours share blocks of dnodes.
        ids.sort_unstable();
        ids
    }
}

/// Whether `relatime` notes a read.
fn is_worth_it(attributes: &Attributes, read: Timestamp, now: Timestamp) -> bool {
    read <= attributes.modified
        || read <= attributes.changed
        || now.seconds.saturating_sub(read.seconds) >= DAY
}

impl FileSystem {
    /// Notes that a file, directory or link was read, if the properties want that.
    pub fn note_read(&self, file: &Znode) {
        let Some(writer) = self.writer() else {
            return;
        };
        let rule = writer.settings().access_times;
        if rule == AccessTimes::Off {
            return;
        }
        let now = writer.now();
        let attributes = file.attributes();
        if rule == AccessTimes::Relative {
            let last = self.last_read(file);
            if !is_worth_it(attributes, last, now) {
                return;
            }
        }
        if writer.reads.mark(file.id(), now)
            && let Some(_storing) = writer.reads.storing.try_lock()
        {
            // No caller waits for it. If access times cannot be stored now, as the pool is
            // suspended, they are lost.
            drop(self.store_marks(writer));
        }
    }

    /// When the file was last read.
    pub(crate) fn last_read(&self, file: &Znode) -> Timestamp {
        self.last_read_of(file.id(), file.attributes())
    }

    /// As [`Self::last_read`], by a file's number and stored attributes.
    pub(crate) fn last_read_of(&self, id: ObjectId, attributes: &Attributes) -> Timestamp {
        let marked = self.writer().and_then(|writer| writer.reads.get(id));
        marked.unwrap_or(attributes.accessed)
    }

    /// Forgets that an object was read.
    pub(super) fn forget_read(&self, id: ObjectId) {
        if let Some(writer) = self.writer() {
            writer.reads.take(id);
        }
    }

    /// Adds a read that is not on disk yet to the changes of a file, unless they set its time.
    pub(super) fn take_read(&self, id: ObjectId, changes: &Changes) -> Option<Timestamp> {
        let read = self.writer()?.reads.take(id)?;
        (!changes.sets(Attribute::Atime)).then_some(read)
    }

    /// Puts all noted reads to disk with the open transaction group.
    pub fn store_access_times(&self) -> Result<(), PosixError> {
        let writer = self.require_writer()?;
        // A closed file system has stored its marks; later reads are not recorded.
        let is_closed = writer.dataset.is_closed();
        if is_closed || writer.reads.count.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let _storing = writer.reads.storing.lock();
        self.store_marks(writer)
    }

    fn store_marks(&self, writer: &Writer) -> Result<(), PosixError> {
        writer
            .reads
            .since
            .store(writer.now().seconds, Ordering::Relaxed);
        for ids in writer.reads.ids().chunks(STORED_AT_ONCE) {
            let tx = self.begin_freeing(0)?;
            for id in ids {
                // A transaction must not wait for a lock. The operation that holds it changes the
                // file, and stores the mark as well.
                let Some(_held) = writer.locks.try_lock(*id) else {
                    continue;
                };
                if self.znode(*id).is_err() {
                    // It was removed meanwhile.
                    writer.reads.take(*id);
                    continue;
                }
                if writer.reads.get(*id).is_some() {
                    tx.begin_undo();
                    self.change(&tx, *id, &Changes::new())?;
                    // Its lock is given up next.
                    tx.keep();
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp {
            seconds,
            nanoseconds: 0,
        }
    }

    #[test]
    fn relatime_notes_the_first_read_after_a_change() {
        let attributes = Attributes {
            modified: at(1000),
            changed: at(2000),
            ..Attributes::default()
        };
        assert!(
            is_worth_it(&attributes, at(1500), at(2001)),
            "changed since"
        );
        assert!(is_worth_it(&attributes, at(2000), at(2001)));
        assert!(!is_worth_it(&attributes, at(2001), at(2002)));
        assert!(is_worth_it(&attributes, at(2001), at(2001 + DAY)), "a day");
    }

    #[test]
    fn marks_are_counted_once_and_grow_old() {
        let reads = Reads::default();
        assert!(!reads.mark(ObjectId(5), at(100)));
        assert!(!reads.mark(ObjectId(5), at(110)));
        assert!(!reads.mark(ObjectId(21), at(110)));
        assert_eq!(reads.get(ObjectId(5)), Some(at(110)));
        assert_eq!(reads.ids(), [ObjectId(5), ObjectId(21)]);
        assert!(reads.mark(ObjectId(5), at(100 + AGE_MAX)));
        assert!(reads.take(ObjectId(5)).is_some() && reads.take(ObjectId(5)).is_none());
        assert_eq!(reads.count.load(Ordering::Relaxed), 1);
        let many = (100..)
            .take(MARKS_MAX - 1)
            .map(|id| reads.mark(ObjectId(id), at(120)));
        assert!(many.last().expect("some"), "many");
    }
}
