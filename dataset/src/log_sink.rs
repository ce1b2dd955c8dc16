//! Where an open dataset notes its operations.

use cenote_base::ObjectId;
use cenote_dmu::Transaction;
use cenote_ondisk::intent_log::record::Record;
use std::fmt;

/// The log of an open dataset: takes each operation in the transaction that does it.
///
/// The caller holds the transaction and the lock of the object during each call. Calls come in the
/// order of the operations on each object. None waits for devices, and none can fail: an operation
/// that cannot be logged becomes durable with its group, and a commit waits for that.
pub trait LogSink: fmt::Debug + Send + Sync {
    /// Takes an operation. The record has no number yet.
    fn append(&self, tx: &Transaction, record: &Record<'_>);

    /// Takes a write whose data is too much to be passed on: it can be read from the object.
    fn append_write(&self, tx: &Transaction, object: ObjectId, offset: u64, length: u64);

    /// Notes that the records do not describe the whole transaction: a commit that covers it waits
    /// for its group.
    fn append_unlogged(&self, tx: &Transaction);

    /// From now on, earlier changes of an object are logged before changes of names.
    fn put_in_order(&self, object: ObjectId);

    /// Drops what was done to an object that the transaction frees: its number may be used again.
    fn forget(&self, object: ObjectId);
}
