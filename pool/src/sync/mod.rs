//! Writing transaction groups: the only code that changes a pool on disk.
//!
//! One thread takes the open group when it is due, and writes it: the datasets, the queued sync
//! tasks, the freed blocks, then the meta object set repeatedly until writing it changes nothing
//! more. Then the devices are flushed and the uberblock is written, which commits everything at
//! once (format/1 1.4, format/1d.5). Until then no block that the uberblocks on disk refer to was
//! overwritten: space freed in a group is reused three groups later.
//!
//! If anything fails the pool is suspended: waiting callers get the reason, and the disk keeps the
//! previous group.

mod aging;
mod away;
mod checkpoint;
mod commit;
mod config;
mod dying;
mod error;
mod frees;
mod missed;
mod mos_sink;
mod obsolete;
mod record;
mod shared;
mod syncer;
mod tasks;

pub(crate) use aging::begin_aging;
pub use cenote_history::Actor;
pub(crate) use cenote_history::{history_fault, log_command, log_event};
pub(crate) use checkpoint::{DiscardCheckpoint, TakeCheckpoint};
pub(crate) use config::{LiveConfig, store_packed};
pub use error::SyncError;
pub(crate) use record::{Recorder, free_map};
pub(crate) use syncer::{Parts, Syncer};
