//! What to do, and how often.

use std::path::PathBuf;

/// What one run does.
#[derive(Clone, Debug)]
pub struct Options {
    /// The first session's seed.
    pub seed: u64,
    /// Kills in all.
    pub kills: u64,
    /// Kills of one session.
    pub session: u64,
    /// Kills between two judgements.
    pub judge: u64,
    /// Turns with OpenZFS's kernel module, each way.
    pub foreign: u64,
    /// Names of loads; all that can run here if empty.
    pub loads: Vec<String>,
    /// The file with the counts: a run that finds it continues from there.
    pub json: Option<PathBuf>,
}
