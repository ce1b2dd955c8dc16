//! What is known of blocks that are stored once and used more than once.

use cenote_ondisk::ddt::DdtStatistics;
use std::sync::Arc;

/// What is known of blocks that are stored once and used more than once.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    /// Counts how often it was forgotten.
    pub(crate) generation: u64,
    /// Bytes saved by dedup and cloning, cached at the first query.
    pub(crate) saved: Option<u64>,
    /// The dedup tables, cached at the first query.
    pub(crate) dedup: Option<Arc<DedupFigures>>,
}

/// The dedup tables of a pool in figures, their logs included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DedupFigures {
    /// Entries of tables and logs; a block may have one in both.
    pub entries: u64,
    /// Bytes that the tables take on disk.
    pub on_disk: u64,
    /// Bytes of the tables and of the entries of logs, once they are in memory.
    pub in_core: u64,
    /// By log2 of references: [`HISTOGRAM_BUCKETS`] of them.
    pub histogram: Vec<DdtStatistics>,
}

impl DedupFigures {
    /// The sums over the histogram.
    pub fn totals(&self) -> DdtStatistics {
        let mut totals = DdtStatistics::default();
        self.histogram.iter().for_each(|bucket| totals.add(bucket));
        totals
    }
}
