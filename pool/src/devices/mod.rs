//! Adding, removing, resting and replacing devices while the pool is in use.
//!
//! Each change is one task of a transaction group (`change`): it reads the current tree, refuses
//! changes that would lose data, builds the new tree (`edit`), and switches to it. The blocks that
//! a leaf misses are recorded before any write. So after a crash at any moment the pool is in the
//! state before or after the change, and never trusts a device with data that it did not get.
//!
//! Devices that the pool needs are not removed: before a device is taken away, the others are
//! probed (`spared`). A log can rest once no intent log needs it.
//!
//! A resilver copies to a new device what it misses (`scan`). When it has ended, replaced devices
//! leave the pool automatically (`done`), and so do spares whose place is filled again.
//!
//! A device whose name leads to something else while it is in use is given up (`names`).
//!
//! Log, spare and cache devices can be removed (`remove`). Spares and cache devices are looked for
//! where the pool recorded them (`auxiliary_search`). Cache devices can be offline (`caches`).
//!
//! **What is not here**: widening of raidz vdevs, removal of data vdevs.

pub(crate) mod add;
pub(crate) mod auxiliary_label;
mod auxiliary_search;
mod caches;
mod change;
mod done;
mod edit;
mod error;
pub(crate) mod grow;
mod join;
mod leave;
mod names;
mod reach;
mod remove;
mod rest;
mod space_tables;
mod spared;
pub(crate) mod spares;
mod split;
pub(crate) mod split_off;
pub(crate) mod vdev_properties;

pub use auxiliary_label::{SpareUser, user_of_spare, waiting_spare};
pub(crate) use change::{Plan, carry_out, forget};
pub(crate) use done::detach_replaced;
pub use error::ChangeError;
pub use join::{Attachment, Companion};
pub(crate) use names::watch_names;
pub use reach::Reach;
pub(crate) use reach::may_open;
pub use remove::Auxiliary;
pub use rest::Offline;
pub(crate) use space_tables::SpaceTables;
pub(crate) use split::{logs_of, without_other_sides};
