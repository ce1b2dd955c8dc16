//! The pools that are imported: the bottom of the engine, which all else reads and changes.
//!
//! `table` has them by name, `imported` is one of them; the other files are what goes with an
//! import: heads that are open for writing (`heads`, `files`), intent logs (`replays`, `replay`,
//! `intent_logs`), damage that was met, snapshots that are being sent (`sent`), clients that
//! have volumes open (`served`, `served_volume`, `freeing`), trees that sites have open
//! (`open_trees`), values that wait for a yes (`waiting`), and the cache file that it is noted in.
//! `approvals` has what this machine's administrator said yes to.

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
pub(crate) mod sent;
pub(crate) mod served;
pub(crate) mod served_volume;
pub(crate) mod table;
pub(crate) mod waiting;
pub(crate) mod walk;
