//! One operation's transaction: all of it happens, or nothing.
//!
//! An operation is a series of steps, and each may find that a block cannot be read, or that a
//! table is full. Until [`Change::keep`] everything can be rolled back, and is if the operation
//! ends earlier: with `?` at any step. Then nothing of it is written to disk or to the log, and the
//! znodes in memory are read again.
//!
//! The locks of all objects that change are held until the end. What is shared by all operations
//! (the delete queue, layouts of attributes) is changed apart, under its own lock
//! ([`Transaction::apart`]). What an operation changes in the delete queue comes as its last step
//! that can fail, so that it never has to be taken back later.

use cenote_base::ObjectId;
use cenote_base::rt::{self, Mutex, ranks};
use cenote_dataset::LogSink;
use cenote_dmu::Transaction;
use cenote_ondisk::intent_log::record::Record;
use std::ops::Deref;
use std::sync::Arc;

/// What knows about objects, and forgets it when they change back.
pub(super) trait Forgetful {
    /// The object is to be read again.
    fn forget_changes(&self, id: ObjectId);
}

/// What is passed to the log when the operation has succeeded.
#[derive(Debug)]
enum Told {
    Record(Vec<u8>),
    Write(ObjectId, u64, u64),
    Unlogged,
    InOrder(ObjectId),
    Forget(ObjectId),
}

/// The log's share of a change.
#[derive(Debug, Default)]
struct Log {
    told: Vec<Told>,
    is_kept: bool,
}

/// A transaction whose changes are taken back unless they are kept.
pub(super) struct Change<'f> {
    tx: Transaction,
    files: &'f dyn Forgetful,
    sink: Option<&'f Arc<dyn LogSink>>,
    log: Mutex<Log, ranks::ToldToLog>,
}

impl Deref for Change<'_> {
    type Target = Transaction;

    fn deref(&self) -> &Transaction {
        &self.tx
    }
}

impl<'f> Change<'f> {
    pub(super) fn new(
        tx: Transaction,
        files: &'f dyn Forgetful,
        sink: Option<&'f Arc<dyn LogSink>>,
    ) -> Self {
        tx.begin_undo();
        let log = Mutex::default();
        Self {
            tx,
            files,
            sink,
            log,
        }
    }

    /// Commits to the changes so far, and passes their records to the log. Later records are passed
    /// at once.
    pub(super) fn keep(&self) {
        self.tx.keep();
        let mut log = self.log.lock();
        log.is_kept = true;
        let told = std::mem::take(&mut log.told);
        drop(log);
        for told in &told {
            self.tell_now(told);
        }
    }

    fn tell_now(&self, told: &Told) {
        let Some(sink) = self.sink else {
            return;
        };
        match told {
            Told::Record(bytes) => {
                let record = Record::decode(bytes).expect("it was encoded here");
                sink.append(&self.tx, &record);
            }
            Told::Write(object, offset, length) => {
                sink.append_write(&self.tx, *object, *offset, *length);
            }
            Told::Unlogged => sink.append_unlogged(&self.tx),
            Told::InOrder(object) => sink.put_in_order(*object),
            Told::Forget(object) => sink.forget(*object),
        }
    }

    fn tell(&self, told: Told) {
        let mut log = self.log.lock();
        if !log.is_kept {
            log.told.push(told);
            return;
        }
        drop(log);
        self.tell_now(&told);
    }

    /// See [`LogSink::append`].
    pub(super) fn log(&self, record: &Record<'_>) {
        let is_kept = self.log.lock().is_kept;
        match self.sink {
            None => {}
            Some(sink) if is_kept => sink.append(&self.tx, record),
            Some(_) => self.tell(Told::Record(record.encode())),
        }
    }

    /// See [`LogSink::append_write`].
    pub(super) fn log_write(&self, object: ObjectId, offset: u64, length: u64) {
        self.tell(Told::Write(object, offset, length));
    }

    /// See [`LogSink::append_unlogged`].
    pub(super) fn log_nothing(&self) {
        self.tell(Told::Unlogged);
    }

    /// See [`LogSink::put_in_order`].
    pub(super) fn log_in_order(&self, object: ObjectId) {
        self.tell(Told::InOrder(object));
    }

    /// See [`LogSink::forget`].
    pub(super) fn log_freed(&self, object: ObjectId) {
        self.tell(Told::Forget(object));
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        // A panic ends the group.
        if rt::panicking() {
            return;
        }
        for id in self.tx.undo() {
            self.files.forget_changes(id);
        }
    }
}
