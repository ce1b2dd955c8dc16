//! Sequential rebuilds: a device gets what it misses in the order of the disk.
//!
//! A resilver follows block pointers, which lie anywhere. Where the same bytes are on several
//! devices at the same place, or parity goes by rows (`vdev::rebuild`), what is allocated can be
//! copied without asking what it is: redundancy is there again much sooner. Nothing is verified on
//! the way, so a scrub follows by itself.
//!
//! One metaslab after another is left alone (`allocation::avoid`); when the groups that may have
//! allocated there are on disk, all of it that is not free is copied. How far that is stands in
//! the ZAP of the top-level vdev (format/1c 8), and the next import goes on there, here or in
//! OpenZFS. At the end the device's log of what it missed is struck off, in the group that says
//! so.
//!
//! A rebuild gives way to a resilver when it cannot be relied on: when a device that is read from
//! lacks something itself, when a device did not take what it was given or was out of use
//! meanwhile, and when there is no other room than the metaslab that is being copied.

mod record;
mod state;
mod worker;

pub(crate) use record::{begin, leave};
pub(crate) use state::Rebuilds;
