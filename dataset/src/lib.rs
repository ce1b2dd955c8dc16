//! Open datasets: what all changes of a dataset need, whatever its contents.
//!
//! File systems, volumes and received streams change an object set under the same rules. These
//! cover space, the transaction group of a change, durability, reports of damage, and closing a
//! dataset that is still in use. [`OpenDataset`] implements them once; `posix`, `volume` and
//! `stream` define what the objects mean. [`Access`] opens datasets of one pool, and is the only
//! place that decides how a head is opened for changes.
//!
//! **Invariants**: a transaction begins only in an open dataset that has space for it. A head is
//! closed only when it accepts no more changes and all its changes are on disk. A change of a
//! closed head could never be stored, and would stop the pool.
//!
//! Each change of a dataset is passed as a record of the intent log to a [`LogSink`], if there is
//! one. [`OpenDataset::settle`] alone decides which calls wait for durability, by the property
//! `sync`, and waits: for that log, or for the transaction group if some change was not logged.
//! [`replay_records`] reads the intent log that a crash left; the layers above apply the records.
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
