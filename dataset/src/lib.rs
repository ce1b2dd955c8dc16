//! Open datasets: what changing a dataset takes, whatever is in it.
//!
//! File systems, volumes and received streams change an object set under the same rules: is there
//! space, which transaction group takes the change, when is it durable, who hears of damage, and
//! what happens when the dataset closes while somebody still has it. [`OpenDataset`] answers these
//! questions once; `posix`, `volume` and `stream` say what the objects mean. [`Access`] opens
//! datasets of one pool, and is the only place that decides how a head is opened for changes.
//!
//! **Invariants**: a transaction begins only in an open dataset that has space for it. A head is
//! closed only when nobody can change it any more and all its changes are on disk: what is written
//! to a closed head could never be stored, and would stop the pool.
//!
//! What changes a dataset says so in records of the intent log, to a [`LogSink`] if there is one.
//! [`OpenDataset::make_durable`] is the one place that waits for durability: by that log, or by the
//! transaction group where not everything is logged.
//! [`replay_records`] goes through the intent log that a crash left; what a record does is again
//! for the layers above to say.
//!
//! Deliberately absent: the table of open datasets, which the daemon keeps.

#![forbid(unsafe_code)]

mod access;
mod damage;
mod error;
mod log;
mod log_sink;
mod open;
mod replay;
mod space;
mod sync_policy;

pub use access::Access;
pub use cenote_intent_log::{Commit, LogData};
pub use damage::{DamageSink, place_of};
pub use error::{DatasetError, SpaceRefusal};
pub use log::read_for_log;
pub use log_sink::LogSink;
pub use open::OpenDataset;
pub use replay::{RecordFailure, ReplayOutcome, replay_records};
pub use space::SpacePolicy;
pub use sync_policy::SyncPolicy;
