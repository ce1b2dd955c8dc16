//! One thing that an administrator should know.

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Good to know; all is well.
    Note,
    /// Wants attention; nothing is lost yet.
    Attention,
    /// Data is damaged or at risk: one more failure may lose some.
    Danger,
}

impl Severity {
    /// The word in configurations, messages and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Attention => "attention",
            Severity::Danger => "danger",
        }
    }

    /// The word before a finding; urgent ones are in capitals.
    pub fn label(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Attention => "ATTENTION",
            Severity::Danger => "DANGER",
        }
    }

    /// The exit code of a command whose worst finding this is.
    pub fn exit_code(self) -> u8 {
        match self {
            Severity::Note => 0,
            Severity::Attention => 1,
            Severity::Danger => 2,
        }
    }
}

/// One thing that an administrator should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The device that it is about, or "" for the pool.
    pub device: String,
    /// What is the matter.
    pub what: String,
    /// What to do about it; "" where there is nothing to do.
    pub advice: String,
}

/// A finding about a device, or with "" about the pool.
pub(crate) fn finding(severity: Severity, device: &str, what: String, advice: String) -> Finding {
    Finding {
        severity,
        device: device.to_owned(),
        what,
        advice,
    }
}
