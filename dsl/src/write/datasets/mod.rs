//! File systems and volumes as nodes of the tree: made, cloned, promoted, renamed, destroyed.

pub(crate) mod clone;
pub(crate) mod create;
pub(crate) mod dataset_features;
pub(crate) mod delegate;
pub(crate) mod destroy;
pub(crate) mod freeing;
pub(crate) mod limits;
pub(crate) mod promote;
pub(crate) mod rename;
