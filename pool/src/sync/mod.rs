//! Writing transaction groups: the only place from which a pool changes on disk.
//!
//! One thread takes the open group when it is time, and writes it: the datasets, the sync tasks
//! that wait, what was freed, then the meta object set again and again until writing it changes
//! nothing more. Then the devices are flushed and the uberblock is written, which commits all of
//! it at once (format/1 1.4, format/1d.5). Until then nothing that the uberblocks on disk refer
//! to was touched: space that is freed in a group is used again three groups later.
//!
//! If anything fails the pool is suspended: whoever waits gets the reason, and the disk keeps
//! the group before.

mod aging;
mod away;
mod checkpoint;
mod commit;
mod config;
mod dying;
mod error;
mod frees;
mod history;
mod missed;
mod mos_sink;
mod obsolete;
mod record;
mod shared;
mod syncer;
mod tasks;

pub(crate) use aging::begin_aging;
pub(crate) use checkpoint::{DiscardCheckpoint, TakeCheckpoint};
pub(crate) use config::{LiveConfig, store_packed};
pub use error::SyncError;
pub use history::Actor;
pub(crate) use history::{history_fault, log_command, log_event};
pub(crate) use record::{Recorder, free_map};
pub(crate) use syncer::{Parts, Syncer};
