//! Intent logs of heads: their headers change when they are claimed, replayed and destroyed
//! (format/2e 4).
//!
//! The blocks of a log are charged to no dataset. They are freed in the same transaction group that
//! clears the header, so that a crash leaves a log with its blocks or neither.

use super::context::SyncContext;
use super::open_head::Head;
use super::policy::HeadPolicy;
use crate::error::DslError;
use cenote_base::ObjectId;
use cenote_dmu::{ObjectSet, Transaction};
use cenote_intent_log::OwnedBlocks;
use cenote_ondisk::features;
use cenote_ondisk::intent_log::IntentLogHeader;
use std::sync::Arc;

impl Head {
    /// Ends the head's log with the transaction's group: the header is cleared and the blocks
    /// that the log owned are freed.
    ///
    /// # Errors
    /// If the head's object set is not open for writing.
    pub fn destroy_log(&self, tx: &Transaction, owned: OwnedBlocks) -> Result<(), DslError> {
        self.ending_logs.add(tx.txg(), owned);
        let empty = IntentLogHeader::default().encode();
        Ok(self.set().set_intent_log_header(tx, empty)?)
    }

    /// Frees what the logs owned that end with the context's group.
    pub(super) fn free_logs(&self, context: &SyncContext<'_>) -> Result<(), DslError> {
        for owned in self.ending_logs.take(context.txg()) {
            context.free_log(&owned)?;
            context.forget_dataset_feature(self.id(), features::ZILSAXATTR)?;
        }
        Ok(())
    }
}

impl SyncContext<'_> {
    /// Stores the header of a head's intent log. The head may be encrypted and without its key:
    /// the header is in clear, and no MAC covers it.
    ///
    /// # Errors
    /// If the head is open for writing, or cannot be read.
    pub fn store_log_header(&self, id: ObjectId, header: &IntentLogHeader) -> Result<(), DslError> {
        let dataset = self.dsl.dataset_of(id)?;
        if self.dsl.is_head_in_use(id) {
            let name = dataset.name().clone();
            return Err(DslError::Busy { name });
        }
        let cache = Arc::clone(self.mos().cache());
        let keys = self.dsl.objset_keys(dataset.directory())?;
        let root = dataset.phys().block_pointer;
        let set = ObjectSet::open_writable(cache, dataset.objset_id(), root, keys, None)?;
        set.set_intent_log_header(self.tx, header.encode())?;
        let head = Head::new(
            id,
            dataset.directory().id(),
            &set,
            HeadPolicy::of(&dataset)?,
        );
        head.sync(self)?;
        self.dsl.objsets.forget(id);
        Ok(())
    }

    /// Clears the header of a log that came with the contents of another dataset: the log's blocks
    /// are none of this one.
    pub(super) fn clear_copied_log(&self, id: ObjectId) -> Result<(), DslError> {
        let dataset = self.dsl.dataset_of(id)?;
        if dataset.phys().block_pointer.is_hole() {
            return Ok(());
        }
        let header = IntentLogHeader::default();
        match dataset.object_set()?.header().intent_log_header == header.encode() {
            true => Ok(()),
            false => self.store_log_header(id, &header),
        }
    }

    /// Frees all that a log owned.
    pub fn free_log(&self, owned: &OwnedBlocks) -> Result<(), DslError> {
        owned.iter().try_for_each(|pointer| self.release(pointer))
    }
}
