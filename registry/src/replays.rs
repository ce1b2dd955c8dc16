//! Intent logs that a crash left in a pool, and the results of their replays.

use cenote_base::rt::{Mutex, MutexGuard, ranks};
use cenote_control::model::IntentLogReport;
use cenote_dataset::ReplayOutcome;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::OnceLock;

/// Logs and replays since the import.
#[derive(Debug, Default)]
pub(crate) struct Replays {
    /// The logs that the import found.
    pub found: OnceLock<Vec<IntentLogReport>>,
    /// How the replay of each dataset's log went when it was opened last.
    results: Mutex<BTreeMap<String, Replayed>, ranks::ReplayResults>,
}

impl Replays {
    /// Remembers how the replay of a dataset's log went.
    pub fn note(&self, dataset: &str, replayed: Replayed) {
        self.results().insert(dataset.to_owned(), replayed);
    }

    /// How replays went, by dataset.
    pub fn results(&self) -> MutexGuard<'_, BTreeMap<String, Replayed>> {
        self.results.lock()
    }
}

/// What a replay did: records applied, and where and why it stopped early.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replayed {
    pub applied: u64,
    pub stopped: Option<String>,
}

impl<E: Display> From<ReplayOutcome<E>> for Replayed {
    fn from(outcome: ReplayOutcome<E>) -> Self {
        let stopped = outcome.stopped;
        Self {
            applied: outcome.applied,
            stopped: stopped.map(|(record, error)| format!("record {record}: {error}")),
        }
    }
}
