//! What to measure.

use std::path::PathBuf;

/// What to measure and where.
#[derive(Debug)]
pub struct Options {
    /// Parts to run; all but the pipeline alone and the million files if empty.
    pub parts: Vec<String>,
    /// Where the pools' files are made and kept.
    pub directory: PathBuf,
    /// MiB to write in each run.
    pub mebibytes: usize,
    /// Rounds of each measurement.
    pub rounds: usize,
    /// Files that the part `million` ends with.
    pub files: u64,
    /// Where to put the figures as JSON.
    pub json: Option<PathBuf>,
}
