//! Delegated permissions: what users may do with a dataset (zfs-allow(8), format/3a 10).
//!
//! A dataset has a table of *grants*. A grant gives permissions to a user, a group or everyone. It
//! holds on the dataset itself, or on all datasets below it, or (as two grants) on both. Nothing is
//! ever denied: a user has a permission if one grant gives it, on the dataset or on one above.
//!
//! A *permission set* (`@backup`) is a name for permissions and other sets. A grant may name a set.
//! What the set stands for is looked up for each request: at the dataset whose table names it,
//! and if that does not define it, at the next one above. So a definition hides those further up.
//!
//! *Create-time* permissions are not granted to anyone yet. The creator of a dataset gets those of
//! all datasets above it, on the new dataset itself.
//!
//! The crate is arithmetic on such tables. It knows their keys on disk, but reads no disk:
//! [`User::is_allowed`] gets the tables of a dataset and of all above it.

#![forbid(unsafe_code)]

mod evaluate;
mod grants;
mod keys;
mod names;

pub use evaluate::User;
pub use grants::{Grant, Grants};
pub use keys::{Grantee, Scope, grant_key, parse_key};
pub use names::{Form, PERMISSIONS, Permission, SET_NAME_MAX, is_set_name};
