//! Alarms: the ways that they leave the machine, and what became of them.

use serde::{Deserialize, Serialize};

/// What is asked about alarms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlarmAct {
    /// The ways, and what was sent.
    List,
    /// Read the configuration again.
    Reload,
    /// The same, and send one alarm by every way now.
    Test,
}

/// What became of a test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlarmOutcome {
    /// It was taken.
    Sent,
    /// It was not.
    Failed {
        /// Why.
        reason: String,
    },
}

/// One way for alarms to leave the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlarmWayState {
    /// Its name.
    pub name: String,
    /// `mail`, `webhook` or `program`.
    pub kind: String,
    /// Where it leads.
    pub target: String,
    /// Alarms that were taken since the daemon read its configuration.
    pub sent: u64,
    /// Alarms that were given up after all tries.
    pub failed: u64,
    /// Alarms that found no place in the queue.
    pub dropped: u64,
    /// Alarms in the queue or on their way.
    pub waiting: u64,
    /// Why the last try failed, unless one succeeded since.
    pub last_error: Option<String>,
    /// What became of a test, after one.
    pub outcome: Option<AlarmOutcome>,
}
