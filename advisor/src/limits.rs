//! From where on a pool is too full, and a scrub too old.

use cenote_control::model::{RunState, Scan, ScanKind};

/// Seconds of a day.
pub const DAY: u64 = 86_400;
/// Days after which a pool should be scrubbed again, by default.
pub const SCRUB_DAYS: u64 = 35;
/// Per cent of a pool's space in use from which on writing becomes slow, by default.
pub const FULL_PERCENT: u64 = 80;
/// A pool this full, in per cent, can hardly be written to.
pub const NEARLY_FULL: u64 = 95;

/// From where on something wants attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Days since the last scrub.
    pub scrub_days: u64,
    /// Per cent of a pool's space in use.
    pub full_percent: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            scrub_days: SCRUB_DAYS,
            full_percent: FULL_PERCENT,
        }
    }
}

/// What follows from a pool being so full.
pub fn consequence(percent: u64) -> &'static str {
    match percent >= NEARLY_FULL {
        true => "writes will soon fail",
        false => "writing becomes slow",
    }
}

/// The highest limit of fullness that `percent` has reached: `limit` or [`NEARLY_FULL`]; 0 if none.
pub fn passed(percent: u64, limit: u64) -> u64 {
    let mut limits = [NEARLY_FULL.max(limit), limit].into_iter();
    limits.find(|limit| percent >= *limit).unwrap_or(0)
}

/// Days since something was so, in whole ones.
pub fn days_since(then: u64, now: u64) -> u64 {
    now.saturating_sub(then) / DAY
}

/// When all of a pool was last read, in seconds: by a scrub or a resilver, and else when it was
/// made; `None` while that is under way.
pub fn last_read(scan: Option<&Scan>, created: impl FnOnce() -> Option<u64>) -> Option<u64> {
    match scan.filter(|scan| scan.kind != ScanKind::ErrorScrub) {
        Some(scan) if scan.state == RunState::Running => None,
        Some(scan) if scan.state == RunState::Finished => Some(scan.end_time),
        _ => created(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_limit_counts() {
        let all = |limit| [79, 80, 94, 95, 99, 100].map(|percent| passed(percent, limit));
        assert_eq!(all(80), [0, 80, 80, 95, 95, 95]);
        assert_eq!(all(99), [0, 0, 0, 0, 99, 99]);
        assert_eq!(consequence(94), "writing becomes slow");
        assert_eq!(consequence(95), "writes will soon fail");
        assert_eq!((days_since(10, 9), days_since(1, DAY)), (0, 0));
        assert_eq!(days_since(0, DAY), 1);
    }
}
