//! File systems and volumes: listed with their properties, made, changed and destroyed.
//!
//! Changes of what is mounted go by way of the mounts, which follow their datasets.

pub(crate) mod accounts;
pub(crate) mod approve;
pub(crate) mod contents;
pub(crate) mod create;
pub(crate) mod delete_queue;
pub(crate) mod destroy;
pub(crate) mod format;
pub(crate) mod list;
pub(crate) mod properties;
pub(crate) mod rename;
pub(crate) mod rollback;
pub(crate) mod set;
