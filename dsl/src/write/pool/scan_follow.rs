//! Keeping a running scrub or resilver on the datasets that it has yet to visit.
//!
//! A scan stores dataset numbers: the current dataset, and a table of the next ones (format/1b 8).
//! It must still find them when it resumes, here or in OpenZFS. So a new snapshot takes the place
//! of its head, because it has the blocks to visit. The successor of a destroyed snapshot takes
//! that snapshot's place. A dataset that is destroyed with its head is removed.

use super::metadata::number_key;
use crate::error::DslError;
use crate::object_directory::{OBJECT_DIRECTORY, keys};
use crate::write::context::SyncContext;
use cenote_base::ObjectId;
use cenote_dmu::zap::ZapValue;
use cenote_ondisk::scan::{FLAG_VISIT_DATASET_AGAIN, SCAN_WORDS};

/// The words of a scan's state that matter here.
const STATE: usize = 1;
const QUEUE: usize = 2;
const OBJECT_SET: usize = 19;
const FLAGS: usize = 23;
/// The state of a scan that is under way.
const SCANNING: u64 = 1;
/// The scan was in an object set that is no more.
const NOWHERE: [u64; 4] = [u64::MAX, 0, 0, 0];

impl SyncContext<'_> {
    /// The words of a scan that is under way.
    fn running_scan(&self) -> Result<Option<Vec<u64>>, DslError> {
        let words = self.dsl.object_directory().words(keys::SCAN)?;
        Ok(words.filter(|words| words.len() == SCAN_WORDS && words[STATE] == SCANNING))
    }

    fn store_scan(&self, words: &[u64]) -> Result<(), DslError> {
        let directory = self.mos().zap(OBJECT_DIRECTORY)?;
        let value = ZapValue::from_u64s(words);
        Ok(directory.update(self.tx, keys::SCAN, &value)?)
    }

    /// Puts a dataset into the place that another has in the scan's queue.
    fn replace_in_queue(
        &self,
        words: &[u64],
        old: ObjectId,
        new: Option<ObjectId>,
    ) -> Result<(), DslError> {
        let Some(queue) = words.get(QUEUE).filter(|queue| **queue != 0) else {
            return Ok(());
        };
        let queue = ObjectId(*queue);
        let txg = self.mos().zap(queue)?.lookup(&number_key(old.0))?;
        let Some(txg) = txg.and_then(|value| value.as_u64()) else {
            return Ok(());
        };
        self.remove_entry(queue, &number_key(old.0))?;
        match new {
            Some(new) => self.set_number(queue, &number_key(new.0), txg),
            None => Ok(()),
        }
    }

    /// A head got a snapshot, which is to be visited in its place: then it leads to the head.
    pub(crate) fn scan_snapshot(&self, head: ObjectId, new: ObjectId) -> Result<(), DslError> {
        let Some(mut words) = self.running_scan()? else {
            return Ok(());
        };
        if words[OBJECT_SET] == head.0 {
            words[OBJECT_SET] = new.0;
            self.store_scan(&words)?;
        }
        self.replace_in_queue(&words, head, Some(new))
    }

    /// A dataset is destroyed; `next` is what comes after it, if it is a snapshot.
    pub(crate) fn scan_without(
        &self,
        lost: ObjectId,
        next: Option<ObjectId>,
    ) -> Result<(), DslError> {
        let Some(mut words) = self.running_scan()? else {
            return Ok(());
        };
        if words[OBJECT_SET] == lost.0 {
            match next {
                Some(next) => {
                    words[OBJECT_SET] = next.0;
                    words[FLAGS] |= FLAG_VISIT_DATASET_AGAIN;
                }
                None => words[OBJECT_SET..FLAGS].copy_from_slice(&NOWHERE),
            }
            self.store_scan(&words)?;
        }
        self.replace_in_queue(&words, lost, next)
    }
}
