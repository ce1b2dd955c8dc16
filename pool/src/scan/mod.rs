//! Scrubs and resilvers: going over all blocks of a pool that is in use, and mending them.
//!
//! A scrub reads every copy of every block, with all redundancy, and writes again what is wrong.
//! A resilver brings devices what they missed: it looks at the blocks born in the groups that
//! their logs name (format/1c 7). Both are one walk, and both end with the pool knowing more
//! about itself: when everything was looked at last, and that a device misses nothing any more.
//!
//! **The walk over what changes.** A walk goes over one state that was on disk (`dmu::traverse`),
//! and the blocks of a state last only as long as freed space is not handed out. Holding that
//! back for days would fill the pool. So a scan is a chain of *turns*, a few seconds each. A turn
//! holds back freed space, walks the newest state on disk from where the turn before stopped,
//! lets go, and notes in a transaction group how far it came. That group lets the space go that
//! was held. Within a turn nothing vanishes, so what cannot be read is lost indeed.
//!
//! **For whom.** A resilver's range of groups and its devices are decided together, in the group
//! that begins it (`record::begin`). When it has ended, what it walked is struck off for those of
//! them that were in use all the time, but for what could not be read, repaired or met. A device
//! that comes later is for another resilver, which the group begins that ends the first. So that
//! an import can continue, the pool keeps which devices got all that was walked so far
//! (`ondisk::resilver_targets`); where that is not known, as after OpenZFS, a resilver begins anew.
//!
//! **Who works.** Whoever begins a scan asks for the work once that is on disk (`base::rt::job`).
//!
//! **The order of datasets** is that of OpenZFS, so that each can go on with the other's scans:
//! first the meta object set, then each snapshot after the one before it, clones after their
//! origins, each for the blocks born since its predecessor. What is next stands in a table in the
//! pool, and who snapshots or destroys datasets keeps that right (`dsl::write::scan_follow`). What
//! a turn did to a dataset that somebody changed meanwhile is forgotten, and done again.
//!
//! **Intent logs** hang on no tree. Those that wait for their replay are gone through with their
//! datasets (`scan::logs`).
//!
//! **What is not looked at**: blocks born after the scan began, logs that are being written, and
//! blocks that only a checkpoint still refers to: a rewind brings back the logs of that time, too.
//! A block that is shared by deduplication or cloning is read as often as it is referred to.

mod after;
mod command;
mod error_scrub;
mod logs;
mod model;
mod plan;
mod record;
mod run;
mod state;
mod walk;

pub(crate) use command::begin_scan;
pub use model::{ScanError, ScanRequest, ScanStatus};
pub(crate) use state::Scans;
