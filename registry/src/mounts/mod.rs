//! Mounts: the table of them, and how they are made, changed and unmounted.
//!
//! [`mounter`] is the interface to the frontend that mounts file systems. The table is at the
//! bottom (`table`); `make`, `change`, `follow` and `unmount` use it, properties (`options`) and
//! directories (`places`).

pub mod change;
pub mod exchange;
pub mod follow;
pub mod make;
pub mod mounter;
pub mod options;
pub mod places;
pub mod snapshot_changes;
mod snapshot_names;
pub mod table;
pub mod unmount;
