//! Volumes: the block view of a dataset (format/2e 8).
//!
//! A volume is an object set with two objects: number 1 holds the data in blocks of one size,
//! number 2 says how large the volume is. Missing blocks read as zeros. What an intent log holds
//! after a crash is replayed in memory by [`Volume::open_replayed`], or on disk by
//! [`Volume::replay_log`] in a pool that is written to; both do it in the same transactions.
//!
//! A volume that is opened by [`Volume::open_writable`] can be changed: [`Volume::write`],
//! [`Volume::zero`], and [`Volume::flush`], from many threads. [`Volume::changed_since`] says what
//! differs from an older snapshot, without reading it.
//!
//! Deliberately absent: serving it to a kernel or over a network, which is the frontends'.

#![forbid(unsafe_code)]

mod changes;
mod error;
mod format;
mod ranges;
mod replay;
mod volume;
mod write;

pub use cenote_dmu::Segment;
pub use changes::Changed;
pub use error::VolumeError;
pub use format::format_new;
pub use replay::VolumeReplay;
pub use volume::Volume;
