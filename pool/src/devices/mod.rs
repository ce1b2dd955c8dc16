//! Devices that come, go, rest and are replaced while the pool is in use.
//!
//! Each change is one task of a transaction group (`change`): it looks at the tree as it is
//! then, refuses what would lose data, makes the tree as it is to be (`edit`), and goes over to
//! it. What a leaf misses is known before anything is written, so a pool that goes down at any
//! moment is found before the change or after it, and never believes a device about what it was
//! not given.
//!
//! What the pool needs does not go: before a device is taken away, the others are asked whether
//! they answer (`spared`). A log can rest once no intent log needs it.
//!
//! A device that comes gets what it misses by a resilver (`scan`). When that has ended, what was
//! replaced leaves by itself (`done`), and so does a spare whose place is filled again.
//!
//! A device whose name leads to something else while it is in use is given up (`names`).
//!
//! Log, spare and cache devices can be removed (`remove`). Spares and cache devices are looked for
//! where the pool recorded them (`auxiliary_search`).
//!
//! **What is not here**: widening of raidz vdevs, removal of data vdevs.

pub(crate) mod add;
pub(crate) mod auxiliary_label;
mod auxiliary_search;
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
