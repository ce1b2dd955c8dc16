//! A message to the administrator.

use cenote_control::model::Event;

/// What an alarm is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AlarmKind {
    /// A device is degraded, faulted, removed or cannot be opened.
    Device,
    /// A device makes errors.
    Errors,
    /// Data that could not be repaired.
    Data,
    /// The pool takes no more changes.
    Suspended,
    /// A scrub or resilver ended.
    Scan,
    /// The pool is nearly full.
    Full,
    /// The pool was not scrubbed for too long.
    Scrub,
    /// A daemon died with pools imported.
    Daemon,
    /// A test whether alarms arrive.
    Test,
}

impl AlarmKind {
    /// Those that pools and daemons give reason for.
    pub const ALL: [AlarmKind; 8] = [
        AlarmKind::Device,
        AlarmKind::Errors,
        AlarmKind::Data,
        AlarmKind::Suspended,
        AlarmKind::Scan,
        AlarmKind::Full,
        AlarmKind::Scrub,
        AlarmKind::Daemon,
    ];

    /// The word in configurations and messages.
    pub fn word(self) -> &'static str {
        match self {
            AlarmKind::Device => "device",
            AlarmKind::Errors => "errors",
            AlarmKind::Data => "data",
            AlarmKind::Suspended => "suspended",
            AlarmKind::Scan => "scan",
            AlarmKind::Full => "full",
            AlarmKind::Scrub => "scrub",
            AlarmKind::Daemon => "daemon",
            AlarmKind::Test => "test",
        }
    }
}

/// How bad it is, as in `cenote health`.
pub use cenote_advisor::Severity as AlarmSeverity;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// What it is about.
    pub kind: AlarmKind,
    /// How bad it is.
    pub severity: AlarmSeverity,
    /// The pool; empty for a test and for a daemon.
    pub pool: String,
    /// The device, where it is about one.
    pub device: Option<String>,
    /// The host that the pool is imported on.
    pub host: String,
    /// One line.
    pub subject: String,
    /// Some more lines: what happened, the state of the pool, what to do.
    pub text: String,
    /// The event behind it.
    pub event: Event,
    /// The number of the event; 0 for a test.
    pub event_id: u64,
    /// Alarms before it that did not find their way.
    pub lost: u64,
}
