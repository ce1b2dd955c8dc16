//! The state of one pool and the findings about it.

use cenote_advisor::{Finding, Severity};
use cenote_control::model::{ErrorRecord, PoolStatus};

/// The state of one pool and the findings about it.
pub struct Health {
    pub status: PoolStatus,
    /// Used space in per cent, if known.
    pub capacity: Option<u64>,
    /// The worst first.
    pub findings: Vec<Finding>,
    /// Earlier errors, the newest first.
    pub history: Vec<ErrorRecord>,
}

impl Health {
    pub fn severity(&self) -> Severity {
        let worst = self.findings.iter().map(|finding| finding.severity).max();
        worst.unwrap_or(Severity::Note)
    }
}
