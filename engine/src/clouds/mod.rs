//! Devices in object stores: opens, watches and releases them.
//!
//! Pools use them like other devices. Their further state is queried here, from the open devices:
//! pending uploads, the present owner, whether the store answers.

pub(crate) mod act;
pub(crate) mod leave;
pub(crate) mod opener;
pub(crate) mod own_disks;
pub(crate) mod rules;
pub(crate) mod status;
pub(crate) mod table;
