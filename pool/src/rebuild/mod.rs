//! Sequential rebuilds: copying to a device in disk order what it misses.
//!
//! A resilver follows block pointers, which lie anywhere. If the devices have the same bytes at the
//! same place, or parity is arranged in rows (`vdev::rebuild`), allocated space can be copied
//! without knowing its blocks: redundancy is restored much sooner. Nothing is verified during the
//! copy, so a scrub starts afterwards.
//!
//! The allocator avoids one metaslab after another (`allocation::avoid`). When the groups that may
//! have allocated there are on disk, all of its space that is not free is copied. The progress is
//! in the ZAP of the top-level vdev (format/1c 8), so the next import can resume it, here or in
//! OpenZFS. At the end the device's dirty time log is cleared, in the group that records the end.
//!
//! A rebuild gives way to a resilver when it is unreliable: when a source device lacks data itself,
//! when a target device failed a write or was out of use meanwhile, or when there is no free space
//! outside the metaslab being copied.

mod record;
mod state;
mod worker;

pub(crate) use record::{begin, leave};
pub(crate) use state::Rebuilds;
