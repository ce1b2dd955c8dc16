//! Which cache files a daemon uses, and what marks its entries in them.
//!
//! `cache_file` has the theory; this is what the table of pools knows of it.

use std::path::PathBuf;

/// The daemon's part in cache files.
#[derive(Debug, Default)]
pub(crate) struct CacheFiles {
    /// The file of pools whose property names none.
    pub default: Option<PathBuf>,
    /// The socket of the daemon.
    pub owner: String,
}
