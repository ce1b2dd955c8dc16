//! Dates as HTTP writes them.
//!
//! A file can have any time at all, and HTTP's years have four digits: times outside of 1970 to
//! 9999 are shown as the nearest second inside.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The last second of the year 9999.
const SECONDS_MAX: u64 = 253_402_300_799;

/// Whole seconds since 1970, within what HTTP can write.
pub(crate) fn seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    since.as_secs().min(SECONDS_MAX)
}

/// `Fri, 27 Nov 2026 03:00:00 GMT`.
pub(crate) fn format(time: SystemTime) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds(time)))
}

/// Seconds since 1970 of a date in any of HTTP's three forms.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let time = httpdate::parse_http_date(text).ok()?;
    time.duration_since(UNIX_EPOCH)
        .ok()
        .map(|since| since.as_secs())
}

/// The parts of a time, as text of fixed width.
pub(crate) struct Parts {
    date: String,
    month: usize,
}

impl Parts {
    /// Takes a time apart.
    pub fn of(time: SystemTime) -> Self {
        const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
        let date = format(time);
        let month = MONTHS.find(&date[8..11]).map_or(1, |at| at / 3 + 1);
        Self { date, month }
    }

    pub fn day(&self) -> &str {
        &self.date[5..7]
    }

    /// `Nov`.
    pub fn month_name(&self) -> &str {
        &self.date[8..11]
    }

    /// From 1.
    pub fn month(&self) -> usize {
        self.month
    }

    pub fn year(&self) -> &str {
        &self.date[12..16]
    }

    /// `03:00:00`.
    pub fn clock(&self) -> &str {
        &self.date[17..25]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_http_cannot_write_are_shown_as_the_nearest() {
        let late = UNIX_EPOCH + Duration::from_secs(1 << 50);
        assert_eq!(format(late), "Fri, 31 Dec 9999 23:59:59 GMT");
        let early = UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(format(early), "Thu, 01 Jan 1970 00:00:00 GMT");
    }

    #[test]
    fn a_date_is_read_in_each_of_its_forms() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse(text), Some(784_111_777), "{text}");
        }
        for text in ["", "yesterday", "Sun, 06 Nov 1994", "1994-11-06T08:49:37Z"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn parts_stand_where_they_are_looked_for() {
        let parts = Parts::of(UNIX_EPOCH + Duration::from_secs(784_111_777));
        let all = (parts.day(), parts.month_name(), parts.month(), parts.year());
        assert_eq!(all, ("06", "Nov", 11, "1994"));
        assert_eq!(parts.clock(), "08:49:37");
    }
}
