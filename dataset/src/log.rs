//! The log of a dataset that is open for changes, and how it makes operations durable.
//!
//! A dataset logs if the layer above asks for it ([`OpenDataset::start_log`]), no log is left from
//! a crash, and it belongs to a pool. A dataset being received has no log: no part of a stream is
//! promised to be durable.

use crate::log_sink::LogSink;
use crate::open::OpenDataset;
use crate::sync_policy::SyncPolicy;
use cenote_base::ObjectId;
use cenote_dmu::{DmuError, ObjectSet, Transaction};
use cenote_dsl::write::Head;
use cenote_intent_log::{Commit, HeadSpace, LogData, LogParams, LogWriter};
use cenote_io::Writer;
use cenote_ondisk::features;
use cenote_ondisk::intent_log::IntentLogHeader;
use cenote_ondisk::intent_log::record::Record;
use std::sync::Arc;

impl LogSink for LogWriter {
    fn append(&self, _: &Transaction, record: &Record<'_>) {
        self.append(record);
    }

    fn append_write(&self, tx: &Transaction, object: ObjectId, offset: u64, length: u64) {
        self.append_write(tx.txg(), object, offset, length);
    }

    fn append_unlogged(&self, tx: &Transaction) {
        self.append_unlogged(tx.txg());
    }

    fn put_in_order(&self, object: ObjectId) {
        self.put_in_order(object);
    }

    fn forget(&self, object: ObjectId) {
        self.forget(object);
    }
}

/// Reads the current contents of a range of an object, for the log. `None` if the object was freed.
///
/// # Errors
/// If it cannot be read.
pub fn read_for_log(
    set: &Arc<ObjectSet>,
    object: ObjectId,
    offset: u64,
    length: u64,
) -> Result<Option<Vec<u8>>, DmuError> {
    let object = match set.object(object) {
        Err(DmuError::NoSuchObject { .. }) => return Ok(None),
        object => object?,
    };
    // Writes are logged in pieces of 1 MiB at most.
    let length = usize::try_from(length).expect("a piece of a write");
    let mut bytes = Vec::with_capacity(length);
    for segment in object.segments(offset, length)? {
        match segment.bytes() {
            Some(data) => bytes.extend_from_slice(data),
            None => bytes.resize(bytes.len() + segment.length, 0),
        }
    }
    Ok(Some(bytes))
}

fn writer_of(
    dataset: &OpenDataset,
    blocks: &Arc<Writer>,
    data: Arc<dyn LogData>,
) -> Arc<LogWriter> {
    let set = Arc::clone(dataset.set());
    let (objset, keys) = (set.id(), set.keys().cloned());
    let (gate, env) = (Arc::clone(dataset.gate()), Arc::clone(dataset.env()));
    LogWriter::new(LogParams {
        space: Arc::new(HeadSpace::new(
            set,
            gate,
            env,
            Arc::clone(blocks),
            Arc::clone(dataset.avoids_log_devices()),
        )),
        data,
        objset,
        keys,
    })
}

/// Whether the header on disk leads to no log. A log that a crash left is first replayed and
/// destroyed. For that the dataset is opened again.
fn is_without_log(head: &Head) -> bool {
    head.set().header().intent_log_header == IntentLogHeader::default().encode()
}

impl OpenDataset {
    /// Logs all operations from now on: the caller passes each one to [`Self::log_sink`]. `data`
    /// reads contents that are too long for a record.
    ///
    /// Where there is no log, [`Self::settle`] waits for the transaction group.
    pub fn start_log(&self, data: Arc<dyn LogData>) {
        let (Some(head), Some(blocks)) = (self.head(), self.blocks()) else {
            return;
        };
        if !is_without_log(head) {
            return;
        }
        head.set_log(writer_of(self, blocks, data));
        if let Some(writer) = head.log() {
            self.set_log_sink(Arc::clone(writer) as Arc<dyn LogSink>);
            self.tell_log(self.sync_policy());
        }
    }

    /// Sets the property `sync` in the log.
    pub(crate) fn tell_log(&self, policy: SyncPolicy) {
        if let Some(writer) = self.writer() {
            writer.set_aging(policy != SyncPolicy::Disabled);
        }
    }

    /// Whether the log may have records of extended attributes.
    pub fn logs_xattrs(&self) -> bool {
        let dsl = self.dsl();
        dsl.is_none_or(|dsl| dsl.has_feature(features::ZILSAXATTR))
    }

    /// Ends a call that may have changed something, or that is an `fsync`: waits until changes that
    /// were made before survive a power cut, if the property `sync` or the caller wants that.
    ///
    /// `wanted` is what the caller asks for (`fsync`, `O_SYNC`, a flush), if anything: the changes
    /// of one object or of all, and those of names with both. The caller has neither a transaction
    /// nor the lock of an object.
    ///
    /// # Errors
    /// If the pool takes no more changes; then they may be lost.
    pub fn settle(&self, wanted: Option<Commit>) -> Result<(), DmuError> {
        let Some(due) = self.sync_policy().due(wanted) else {
            return Ok(());
        };
        match self.writer() {
            Some(writer) => writer.commit(due).map(drop),
            None => self.sync(),
        }
    }

    /// The log's writer, if operations of this handle are logged.
    pub(crate) fn writer(&self) -> Option<&Arc<LogWriter>> {
        // A second handle of the same head may not log.
        self.log_sink().and_then(|_| self.head()?.log())
    }
}
