//! Mounts: the table of them, and how they are made, changed and taken away.
//!
//! [`mounter`] is the seam to whoever puts file systems into the directory tree. The table lies at
//! the bottom (`table`); `make`, `change`, `follow` and `unmount` go by it, by properties
//! (`options`) and by directories (`places`).

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
