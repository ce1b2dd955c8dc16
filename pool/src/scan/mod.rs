//! Scrubs and resilvers: reading and repairing all blocks of a pool in use.
//!
//! A scrub reads every copy of every block, with all redundancy, and rewrites what is wrong. A
//! resilver copies to devices what they missed: it reads the blocks born in the groups of their
//! dirty time logs (format/1c 7). Both are the same walk, and both end with a record in the pool:
//! when it was last scrubbed, or that a device misses nothing any more.
//!
//! **Walking a changing pool.** A walk covers one state that was on disk (`dmu::traverse`), and the
//! blocks of a state last only until freed space is reused. Preventing that for days would fill the
//! pool. So a scan is a chain of *turns* of a few seconds each. A turn holds freed space, walks the
//! newest state on disk from where the previous turn stopped, and records its progress in a
//! transaction group. That group releases the held space. Within a turn nothing vanishes, so an
//! unreadable block is really lost.
//!
//! **Targets.** A resilver's range of groups and its devices are chosen together, in the group that
//! begins it (`record::begin`). At its end, the walked range is removed from the dirty time logs of
//! those devices that were in use all the time, except blocks that could not be read, repaired or
//! reached. A device that comes later needs another resilver, which starts in the group that ends
//! the first. To resume after an import, the pool stores which devices got all that was walked so
//! far (`ondisk::resilver_targets`). If that is unknown, as after OpenZFS, a resilver restarts.
//!
//! **Threads.** The caller that begins a scan starts the job once the scan is on disk
//! (`base::rt::job`).
//!
//! **The order of datasets** is that of OpenZFS, so that each can resume the other's scans: first
//! the meta object set, then each snapshot after its predecessor, clones after their origins, each
//! for the blocks born since its predecessor. The next datasets are in a table in the pool, which
//! creating snapshots and destroying datasets keeps up to date (`dsl::write::scan_follow`). If a
//! dataset changed during a turn, the turn's progress in it is discarded and repeated.
//!
//! **Intent logs** belong to no tree. Those that wait for their replay are read with their datasets
//! (`scan::logs`).
//!
//! **Not scanned** are blocks born after the scan began, logs that are being written, and blocks
//! that only a checkpoint refers to: a rewind restores the dirty time logs of that time, too. A
//! block shared by deduplication or cloning is read once for each reference.

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
