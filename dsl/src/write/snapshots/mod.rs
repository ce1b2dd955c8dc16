//! Snapshots and bookmarks: made, held, renamed, destroyed, gone back to.

pub(crate) mod bookmark;
pub(crate) mod bookmark_task;
pub(crate) mod destroy_snapshot;
pub(crate) mod hold;
pub(crate) mod rename_snapshot;
pub(crate) mod rollback;
pub(crate) mod snapshot;
