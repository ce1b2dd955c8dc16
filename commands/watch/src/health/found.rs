//! What was found out about one pool.

use cenote_advisor::{Finding, Severity};
use cenote_control::model::{ErrorRecord, PoolStatus};

/// What was found out about one pool.
pub struct Health {
    pub status: PoolStatus,
    /// Per cent of its space that is in use, where that is known.
    pub capacity: Option<u64>,
    /// The worst first.
    pub findings: Vec<Finding>,
    /// What went wrong earlier, the newest first.
    pub history: Vec<ErrorRecord>,
}

impl Health {
    pub fn severity(&self) -> Severity {
        let worst = self.findings.iter().map(|finding| finding.severity).max();
        worst.unwrap_or(Severity::Note)
    }
}
