//! The pool's history: commands with their users, and what the system noted (format/1b 5).
//!
//! The history is a ring of records in one object of the pool. A record has a command line, an
//! event of the system, or a request as it was asked. [`read()`] reads the records, and
//! [`log_command`] and others add to them while a transaction group is written, so that the history
//! has a change if the pool has it. [`Events`] says what a change of datasets adds: one command may
//! change many.
//!
//! *Invariants*: the record of the pool's creation is never overwritten. A history that cannot be
//! read is replaced by a new one, because a pool must not be lost for lack of its history.

#![forbid(unsafe_code)]

mod events;
mod read;
mod record;
mod write;

pub use events::{DatasetEvent, Events, WithEvents};
pub use read::{History, read};
pub use record::{HistoryBody, HistoryRecord};
pub use write::{Actor, history_fault, log_command, log_event};
