//! Times of files as headers have them.

use cenote_posix::Timestamp;
use std::time::{Duration, SystemTime};

/// Seconds of the years 1 to 9999: others cannot be written in a header.
const SECONDS: std::ops::Range<i64> = -62_135_596_800..253_402_300_800;

/// A file's time; a time that no header can have becomes that of 1970.
pub(crate) fn system_time(time: Timestamp) -> SystemTime {
    let epoch = SystemTime::UNIX_EPOCH;
    if !SECONDS.contains(&time.seconds) {
        return epoch;
    }
    let seconds = Duration::from_secs(time.seconds.unsigned_abs());
    let whole = match time.seconds < 0 {
        true => epoch.checked_sub(seconds),
        false => epoch.checked_add(seconds),
    };
    let part = Duration::from_nanos(u64::from(time.nanoseconds));
    whole
        .and_then(|whole| whole.checked_add(part))
        .unwrap_or(epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_stored_time_is_one_of_the_systems() {
        let of = |seconds, nanoseconds| system_time(Timestamp::from_stored((seconds, nanoseconds)));
        let epoch = SystemTime::UNIX_EPOCH;
        assert_eq!(of(1, 5), epoch + Duration::new(1, 5));
        assert_eq!(of(-1, 500_000_000), epoch - Duration::from_millis(500));
        assert_eq!(of(i64::MAX, 999_999_999), epoch, "no header has it");
        assert_eq!(of(i64::MIN, 0), epoch);
    }
}
