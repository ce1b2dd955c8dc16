//! Modes, times and names as `ls -l` and `stat` show them.

use cenote_posix::{FileKind, Timestamp};
use jiff::tz::TimeZone;

/// `drwxr-xr-x`.
pub fn mode_text(kind: FileKind, mode: u16) -> String {
    let first = match kind {
        FileKind::Regular => '-',
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
        FileKind::CharDevice => 'c',
        FileKind::BlockDevice => 'b',
        FileKind::Fifo => 'p',
        FileKind::Socket => 's',
    };
    let mut text = String::from(first);
    // Owner, group, others; the bit that changes x, and its letters with and without x.
    let classes = [
        (6, 0o4000, 's', 'S'),
        (3, 0o2000, 's', 'S'),
        (0, 0o1000, 't', 'T'),
    ];
    for (shift, special, with, without) in classes {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (false, false) => '-',
            (false, true) => 'x',
            (true, true) => with,
            (true, false) => without,
        });
    }
    text
}

/// Shows times in the user's zone.
#[derive(Debug)]
pub struct Clock(TimeZone);

impl Clock {
    /// In the zone of `TZ` or the system.
    pub fn local() -> Self {
        Self(TimeZone::system())
    }

    fn format(&self, time: Timestamp, form: &str) -> String {
        let nanoseconds = i32::try_from(time.nanoseconds).expect("below 10^9");
        match jiff::Timestamp::new(time.seconds, nanoseconds) {
            Ok(stamp) => stamp.to_zoned(self.0.clone()).strftime(form).to_string(),
            // Beyond the year 9999, or before -9999.
            Err(_) => format!("@{}", time.seconds),
        }
    }

    /// `2026-11-21 20:51`.
    pub fn minutes(&self, time: Timestamp) -> String {
        self.format(time, "%Y-%m-%d %H:%M")
    }

    /// `2026-11-21 20:51:07.123456789 +0000`.
    pub fn exact(&self, time: Timestamp) -> String {
        self.format(time, "%Y-%m-%d %H:%M:%S.%9f %z")
    }

    /// `2026-11-21 20:51:07`, of seconds since 1970.
    pub fn seconds(&self, seconds: u64) -> String {
        let time = Timestamp {
            seconds: i64::try_from(seconds).unwrap_or(i64::MAX),
            nanoseconds: 0,
        };
        self.format(time, "%Y-%m-%d %H:%M:%S")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_show_their_special_bits() {
        assert_eq!(mode_text(FileKind::Directory, 0o1777), "drwxrwxrwt");
        assert_eq!(mode_text(FileKind::Regular, 0o4644), "-rwSr--r--");
        assert_eq!(mode_text(FileKind::Regular, 0o2755), "-rwxr-sr-x");
        assert_eq!(mode_text(FileKind::Symlink, 0o777), "lrwxrwxrwx");
    }

    #[test]
    fn times_beyond_the_calendar_stay_numbers() {
        let clock = Clock(TimeZone::UTC);
        let time = |seconds| Timestamp {
            seconds,
            nanoseconds: 5,
        };
        assert_eq!(clock.exact(time(-1)), "1969-12-31 23:59:59.000000005 +0000");
        assert_eq!(clock.minutes(time(1 << 60)), "@1152921504606846976");
        assert_eq!(clock.seconds(0), "1970-01-01 00:00:00");
    }
}
