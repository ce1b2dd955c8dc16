//! The imported pools and their mounts: what the engine keeps about pools, and reads and changes
//! with each request.
//!
//! [`table`] has the pools by name, [`imported`] is one of them. The other files have the state of
//! an import: heads that are open for writing ([`heads`], `files`), intent logs (`replays`,
//! `replay`, `intent_logs`), damage that reads found ([`damage`]), snapshots that are being sent
//! ([`sent`]), users of open volumes ([`served`], [`served_volume`], `freeing`), trees that sites
//! have open ([`open_trees`]), values that wait for approval ([`waiting`]), and the cache file
//! ([`cache_file`]). [`memory`] is divided among them, [`sitting`] knows their slow devices, and
//! [`moments`] when their groups were written. [`rights`] are those of ordinary users, and
//! [`judge`] is what their requests need. [`approvals`] has the values that this
//! machine's administrator approved.
//!
//! [`arriving`] has the names of pools that are being imported or created, and [`events`] what
//! happened to pools, for clients that follow it; [`ereports`] are those of faults that reads meet.
//!
//! [`mounts`] has what is mounted of the pools. [`errors`] makes refusals from the errors of the
//! layers below, [`values`] parses values of properties, and [`key_words`] those about keys.
//! [`command`] runs a change, and notes it in the history.
//!
//! Deliberately absent: requests, and when events are posted. The engine maps the first to these
//! functions, and posts the second.

#![forbid(unsafe_code)]

pub mod approvals;
pub mod arriving;
pub mod cache_file;
pub mod cache_places;
pub mod command;
pub mod damage;
pub mod ereports;
pub mod errors;
pub mod events;
mod files;
mod freeing;
pub mod heads;
pub mod imported;
mod intent_logs;
pub mod judge;
pub mod key_words;
pub mod memory;
pub mod moments;
pub mod mounts;
pub mod open_trees;
mod replay;
mod replays;
pub mod rights;
pub mod sent;
pub mod served;
pub mod served_volume;
pub mod sitting;
pub mod table;
pub mod values;
pub mod waiting;
pub mod walk;
