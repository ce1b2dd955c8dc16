//! What the number of a setting counts.

/// What a setting's number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of memory or of a request.
    Bytes,
    /// Things: requests, streams, blocks.
    Count,
    /// 1 for yes, 0 for no.
    Switch,
    /// Hundredths.
    Percent,
    /// The power of two.
    Shift,
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Nanoseconds.
    Nanoseconds,
    /// Anything: a setting without a meaning here.
    Any,
}

impl Unit {
    /// The word for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Count => "count",
            Self::Switch => "switch",
            Self::Percent => "percent",
            Self::Shift => "shift",
            Self::Seconds => "s",
            Self::Milliseconds => "ms",
            Self::Nanoseconds => "ns",
            Self::Any => "any",
        }
    }
}
