//! What to measure.

use std::path::PathBuf;

/// What to measure and where.
#[derive(Debug)]
pub struct Options {
    /// Parts to run; all if empty.
    pub parts: Vec<String>,
    /// Where pools are made and kept.
    pub directory: PathBuf,
    /// An image with the pool of files, as `files-pool.sh` makes it, to read instead of our own.
    pub files_image: Option<PathBuf>,
}
