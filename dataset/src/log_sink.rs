//! Where an open dataset notes its operations.

use cenote_base::ObjectId;
use cenote_dmu::Transaction;
use cenote_ondisk::intent_log::record::Record;
use std::fmt;

/// The log of an open dataset: takes each operation in the transaction that does it.
///
/// All calls come while the transaction and the lock of the object are held, in the order of the
/// operations on each object. None waits for devices, and none can fail: whoever cannot log an
/// operation waits for its group when somebody wants it to be durable.
pub trait LogSink: fmt::Debug + Send + Sync {
    /// Takes an operation. The record has no number yet.
    fn append(&self, tx: &Transaction, record: &Record<'_>);

    /// Takes a write whose data is too much to be passed on: it can be read from the object.
    fn append_write(&self, tx: &Transaction, object: ObjectId, offset: u64, length: u64);

    /// Takes note that no record tells all that the transaction does: who wants that to be durable
    /// waits for its group.
    fn append_unlogged(&self, tx: &Transaction);

    /// Has what was done to an object before come before what is done to names from now on.
    fn put_in_order(&self, object: ObjectId);

    /// Drops what was done to an object that the transaction frees: its number may be used again.
    fn forget(&self, object: ObjectId);
}
