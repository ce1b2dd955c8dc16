//! How alarms leave the machine, as the engine sees it.

use crate::alarm::{Alarm, AlarmKind, AlarmSeverity};
use cenote_advisor::limits::{FULL_PERCENT, SCRUB_DAYS};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// Why an alarm did not get through.
#[derive(Debug, Error)]
pub enum AlarmSendError {
    /// The way itself could not be gone: no such program, no connection.
    #[error("{place}: {source}")]
    Io {
        /// What was to be reached or started.
        place: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// It took longer than it may.
    #[error("{place}: no answer within {} s", .limit.as_secs())]
    Slow {
        /// What was to answer.
        place: String,
        /// How long it was waited for.
        limit: Duration,
    },
    /// The receiver refused it.
    #[error("{place}: {answer}")]
    Refused {
        /// The receiver.
        place: String,
        /// What was answered.
        answer: String,
    },
}

/// One way for alarms to leave the machine.
pub trait AlarmWay: Send + Sync {
    /// Sends an alarm; returns within the way's own limit of time.
    ///
    /// # Errors
    /// Why it did not get through.
    fn send(&self, alarm: &Alarm) -> Result<(), AlarmSendError>;
}

/// A way and what is sent by it.
pub struct AlarmWayPlan {
    /// What messages call it.
    pub name: String,
    /// `mail`, `webhook`, `program`.
    pub kind: &'static str,
    /// Where it leads.
    pub target: String,
    /// Only these kinds of alarms.
    pub on: Vec<AlarmKind>,
    /// Only alarms at least this bad.
    pub least: AlarmSeverity,
    /// The way.
    pub way: Arc<dyn AlarmWay>,
}

/// From where on something is an alarm.
#[derive(Clone, Copy, Debug)]
pub struct AlarmLimits {
    /// Per cent of a pool's space in use; 0 for never.
    pub full_percent: u64,
    /// Days since the last scrub; 0 for never.
    pub scrub_days: u64,
    /// How long errors are gathered before the first message about them.
    pub gather: Duration,
    /// Further messages about the same errors are so far apart.
    pub repeat: Duration,
}

impl Default for AlarmLimits {
    fn default() -> Self {
        Self {
            full_percent: FULL_PERCENT,
            scrub_days: SCRUB_DAYS,
            gather: Duration::from_secs(10),
            repeat: Duration::from_secs(3600),
        }
    }
}

/// What to report, and how.
#[derive(Default)]
pub struct AlarmPlan {
    /// From where on something is an alarm.
    pub limits: AlarmLimits,
    /// A way that failed is tried again after each of these times.
    pub retries: Vec<Duration>,
    /// The ways; without any there are no alarms.
    pub ways: Vec<AlarmWayPlan>,
    /// The file that the plan comes from.
    pub file: Option<String>,
}

/// A plan cannot be read; the message names its place.
#[derive(Debug, Error)]
#[error("{message}")]
pub struct AlarmPlanError {
    /// File, line, and what is wrong.
    pub message: String,
}

/// Where plans come from.
pub trait AlarmSource: Send + Sync {
    /// The plan as it is now.
    ///
    /// # Errors
    /// What is wrong with it.
    fn load(&self) -> Result<AlarmPlan, AlarmPlanError>;
}

/// The daemon's plan and where to read it again.
#[derive(Default)]
pub struct AlarmSetup {
    /// The plan to begin with.
    pub plan: AlarmPlan,
    /// Where it came from.
    pub source: Option<Box<dyn AlarmSource>>,
}
