//! Mounts: the table of them, and how they are made, changed and unmounted.
//!
//! [`mounter`] is the interface to the frontend that mounts file systems. The table is at the
//! bottom (`table`); `make`, `change`, `follow` and `unmount` use it, properties (`options`) and
//! directories (`places`).

pub(crate) mod change;
pub(crate) mod exchange;
pub(crate) mod follow;
pub(crate) mod make;
pub mod mounter;
pub(crate) mod options;
pub(crate) mod places;
pub mod snapshot_changes;
pub(crate) mod snapshot_names;
pub(crate) mod table;
pub(crate) mod unmount;
