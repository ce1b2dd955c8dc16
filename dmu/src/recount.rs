//! Starts a new count of what an object set's owners use; see [`crate::live::recount`].

use crate::error::DmuError;
use crate::live::recount::Recount;
use crate::object_set::ObjectSet;
use crate::txg::Transaction;
use cenote_base::ObjectId;
use std::sync::Arc;

/// Objects that are counted in one transaction: about 1 MiB of dnodes.
const COUNTED_AT_ONCE: usize = 1024;

impl ObjectSet {
    /// Begins to count the accounts of the flags `targets`, which must not be complete. `false` if
    /// a count is under way.
    pub fn begin_recount(&self, targets: u64) -> bool {
        let Some(live) = &self.live else {
            return false;
        };
        let mut recount = live.recount.lock();
        let is_new = recount.is_none() && targets & self.header().flags == 0;
        if is_new {
            *recount = Some(Recount::new(targets));
        }
        is_new
    }

    /// The flags of accounts that are being counted.
    pub fn counted_now(&self) -> u64 {
        let live = self.live.as_ref();
        live.and_then(|live| live.recount.lock().as_ref().map(|recount| recount.targets))
            .unwrap_or(0)
    }

    /// Counts some objects behind `after`; returns the last of them, or `None` if these were all.
    ///
    /// # Errors
    /// If dnodes cannot be read.
    pub fn recount_some(
        self: &Arc<Self>,
        tx: &Transaction,
        after: ObjectId,
    ) -> Result<Option<ObjectId>, DmuError> {
        let Some(live) = &self.live else {
            return Err(DmuError::ReadOnly { objset: self.id() });
        };
        let mut last = None;
        for found in self.objects(ObjectId(after.0 + 1)).take(COUNTED_AT_ONCE) {
            let (id, _) = found?;
            last = Some(id);
            match self.object(id).and_then(|object| object.touch(tx)) {
                // It was freed meanwhile.
                Err(DmuError::NoSuchObject { .. }) => {}
                touched => touched?,
            }
        }
        let reached = last.map_or(u64::MAX, |last| last.0);
        if let Some(recount) = &mut *live.recount.lock() {
            recount.reach(tx.txg(), reached);
        }
        self.mark_dirty(tx)?;
        Ok(last)
    }

    /// Says that all is counted. The groups that counted must be on disk.
    ///
    /// # Errors
    /// If the set takes no changes.
    pub fn finish_recount(self: &Arc<Self>, tx: &Transaction) -> Result<(), DmuError> {
        let targets = self.counted_now();
        self.set_flags(tx, self.header().flags | targets)
    }

    /// Gives a count up, for the next mount to begin it again.
    pub fn stop_recount(&self) {
        if let Some(live) = &self.live {
            live.recount.lock().take();
        }
    }
}
