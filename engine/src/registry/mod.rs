//! The imported pools: the bottom of the engine, which everything else reads and changes.
//!
//! `table` has them by name, `imported` is one of them. The other files have the state of an
//! import: heads that are open for writing (`heads`, `files`), intent logs (`replays`, `replay`,
//! `intent_logs`), damage that reads found (`damage`), snapshots that are being sent (`sent`),
//! users of open volumes (`served`, `served_volume`, `freeing`), trees that sites have open
//! (`open_trees`), values that wait for approval (`waiting`), and the cache file (`cache_file`).
//! `approvals` has the values that this machine's administrator approved.

pub(crate) mod approvals;
pub(crate) mod cache_file;
pub(crate) mod cache_places;
pub(crate) mod damage;
pub(crate) mod files;
pub(crate) mod freeing;
pub(crate) mod heads;
pub(crate) mod imported;
pub(crate) mod intent_logs;
pub(crate) mod open_trees;
pub(crate) mod replay;
pub(crate) mod replays;
pub(crate) mod rights;
pub(crate) mod sent;
pub(crate) mod served;
pub(crate) mod served_volume;
pub(crate) mod table;
pub(crate) mod waiting;
pub(crate) mod walk;
