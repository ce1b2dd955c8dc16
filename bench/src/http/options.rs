//! What is measured, and how.

use std::path::PathBuf;

/// How many large files.
pub const LARGE_FILES: u64 = 4;

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the images of the file systems lie.
    pub directory: PathBuf,
    /// Small files, of 4 KiB.
    pub files: u64,
    /// MiB of each of the large files.
    pub mebibytes: u64,
    /// Seconds for each figure.
    pub seconds: u64,
    /// Connections that wait.
    pub idle: u64,
    /// Only cases whose name has this in it.
    pub only: String,
}
