//! Notes about unreadable intent logs ([`cenote_ondisk::log_notes`]).
//!
//! An import notes the heads whose logs could not be claimed. Destroying unreadable contents notes
//! that their log is still to be freed. Both notes are removed when the object set block becomes
//! readable, or when it is not needed any more.

use crate::dataset::Dataset;
use crate::dsl::Dsl;
use crate::error::DslError;
use crate::object_directory::{OBJECT_DIRECTORY, keys};
use crate::write::context::SyncContext;
use cenote_base::{ObjectId, ObjsetId, Txg};
use cenote_dmu::ObjectSet;
use cenote_dmu::zap::ZapValue;
use cenote_intent_log::{IntentLog, OwnedBlocks};
use cenote_ondisk::BlockPointer;
use cenote_ondisk::log_notes::{self, NOTES_MAX, UNCLAIMED_LOGS, UNFREED_LOGS, UnfreedLog};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Dsl {
    /// The heads whose logs could not be claimed, each with the last group synced before that.
    pub fn unclaimed_logs(&self) -> Result<BTreeMap<ObjectId, Txg>, DslError> {
        let words = self.object_directory().words(UNCLAIMED_LOGS)?;
        Ok(log_notes::decode_unclaimed(&words.unwrap_or_default()))
    }

    /// The destroyed contents whose logs are still to be freed.
    pub fn unfreed_logs(&self) -> Result<Vec<UnfreedLog>, DslError> {
        // They are in the queue, and mean nothing without it.
        if self.object_directory().object(keys::BPTREE)?.is_none() {
            return Ok(Vec::new());
        }
        let words = self.object_directory().words(UNFREED_LOGS)?;
        Ok(log_notes::decode_unfreed(&words.unwrap_or_default()))
    }

    /// What the log of an object set that waits to be freed owns, if the log waits with it.
    ///
    /// # Errors
    /// If the object set block cannot be read.
    pub fn unfreed_log_of(
        &self,
        log: &UnfreedLog,
        root: &BlockPointer,
    ) -> Result<OwnedBlocks, DslError> {
        let cache = Arc::clone(self.mos().cache());
        let set = ObjectSet::open(cache, ObjsetId(log.head.0), *root, None)?;
        let found = IntentLog::open(&set).ok().flatten();
        let mut owned = found.map(|log| log.known_blocks().0).unwrap_or_default();
        owned.retain(|pointer| pointer.physical_birth() <= log.allocated);
        Ok(owned)
    }
}

impl SyncContext<'_> {
    fn store_words(&self, key: &str, words: &[u64]) -> Result<(), DslError> {
        if words.is_empty() {
            return self.remove_directory_entry(key);
        }
        let directory = self.mos().zap(OBJECT_DIRECTORY)?;
        let value = ZapValue::from_u64s(words);
        Ok(directory.update(self.tx, key.as_bytes(), &value)?)
    }

    /// Stores which heads' logs could not be claimed.
    pub fn store_unclaimed_logs(&self, heads: &BTreeMap<ObjectId, Txg>) -> Result<(), DslError> {
        self.store_words(UNCLAIMED_LOGS, &log_notes::encode_unclaimed(heads))
    }

    /// Forgets that the log of a head was not claimed; until which group its blocks are allocated.
    fn take_unclaimed_log(&self, head: ObjectId) -> Result<Option<Txg>, DslError> {
        let mut heads = self.dsl.unclaimed_logs()?;
        let synced = heads.remove(&head);
        if synced.is_some() {
            self.store_unclaimed_logs(&heads)?;
        }
        Ok(synced)
    }

    /// Frees the log of a head whose contents are about to be freed.
    ///
    /// Only a block of the chain says where the next one is, and only the object set where the
    /// first one is. Where the object set cannot be read now, the log is freed with the contents,
    /// which wait in the queue until they can be read. What lies behind a damaged block of the
    /// chain stays allocated.
    pub(crate) fn free_log_of(&self, head: &Dataset) -> Result<(), DslError> {
        let root = head.phys().block_pointer;
        let unclaimed = self.take_unclaimed_log(head.id())?;
        if root.is_hole() {
            return Ok(());
        }
        let log = UnfreedLog::new(&root, head.id(), unclaimed.unwrap_or(Txg(u64::MAX)));
        match self.dsl.unfreed_log_of(&log, &root) {
            Ok(owned) => self.free_log(&owned),
            Err(_) => {
                let mut logs = self.dsl.unfreed_logs()?;
                // Without room for it, it stays allocated as it does in OpenZFS.
                if logs.len() < NOTES_MAX {
                    logs.push(log);
                    self.store_words(UNFREED_LOGS, &log_notes::encode_unfreed(&logs))?;
                }
                Ok(())
            }
        }
    }

    /// Frees the log that waits for the object set block `root` to be freed, if there is one.
    pub(crate) fn free_waiting_log(&self, root: &BlockPointer) -> Result<(), DslError> {
        let mut logs = self.dsl.unfreed_logs()?;
        let Some(at) = logs.iter().position(|log| log.is_of(root)) else {
            return Ok(());
        };
        let log = logs.swap_remove(at);
        let owned = self.dsl.unfreed_log_of(&log, root)?;
        self.free_log(&owned)?;
        self.store_words(UNFREED_LOGS, &log_notes::encode_unfreed(&logs))
    }

    /// Forgets the logs that waited for contents: nothing is left to be freed.
    pub(crate) fn forget_waiting_logs(&self) -> Result<(), DslError> {
        self.remove_directory_entry(UNFREED_LOGS)
    }
}
