//! What to measure.

use std::path::PathBuf;

/// What to measure and where.
#[derive(Debug)]
pub struct Options {
    /// Parts to run; all but `import` if empty.
    pub parts: Vec<String>,
    /// Where the files are made and kept.
    pub directory: PathBuf,
    /// Seconds of each measurement.
    pub seconds: u64,
    /// Rounds of each measurement.
    pub rounds: usize,
    /// Where to put the figures as JSON.
    pub json: Option<PathBuf>,
}
