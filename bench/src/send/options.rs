//! What is to be measured of streams.

use std::path::PathBuf;

/// What to measure, and where.
#[derive(Debug)]
pub struct Options {
    /// `send`, `receive`; both if empty.
    pub parts: Vec<String>,
    /// Where pools are made and kept.
    pub directory: PathBuf,
    /// MiB of large files.
    pub mebibytes: usize,
    /// Small files.
    pub files: u64,
    /// How often each is measured; the best counts.
    pub rounds: usize,
}
