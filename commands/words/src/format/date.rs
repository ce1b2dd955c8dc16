//! Dates in the user's time zone, in the forms that OpenZFS prints with the C locale.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A form of date.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// `Sat Nov 21 18:30 2026`, the hour padded with a blank: property `creation`.
    Minute,
    /// `Sat Nov 21 18:30:16 2026`, the hour padded with a blank: property `snapshots_changed`.
    Second,
    /// `Sat Nov 21 18:30:16 2026`: scan lines.
    Ctime,
    /// `Sat Nov 21 18:30 2026`: holds.
    Hold,
    /// `2026-11-21.18:30:16`: history.
    History,
    /// `Nov 21 2026 18:30:16`: events.
    Event,
    /// `Sat Nov 21 18:30:16 UTC 2026`: `-T d` and JSON.
    Locale,
}

/// Formats `seconds` since the epoch, or prints the number if it is outside the calendar.
pub fn date(seconds: u64, form: Form, zone: &TimeZone) -> String {
    let timestamp = i64::try_from(seconds).ok();
    let Some(timestamp) = timestamp.and_then(|s| Timestamp::from_second(s).ok()) else {
        return seconds.to_string();
    };
    let pattern = match form {
        Form::Minute => "%a %b %e %k:%M %Y",
        Form::Second => "%a %b %e %k:%M:%S %Y",
        Form::Ctime => "%a %b %e %H:%M:%S %Y",
        Form::Hold => "%a %b %e %H:%M %Y",
        Form::History => "%F.%T",
        Form::Event => "%b %e %Y %T",
        Form::Locale => "%a %b %e %H:%M:%S %Z %Y",
    };
    timestamp
        .to_zoned(zone.clone())
        .strftime(pattern)
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_known_moment() {
        let at = |form| date(1_700_000_000, form, &TimeZone::UTC);
        assert_eq!(at(Form::Minute), "Tue Nov 14 22:13 2023");
        assert_eq!(at(Form::Second), "Tue Nov 14 22:13:20 2023");
        assert_eq!(at(Form::Ctime), "Tue Nov 14 22:13:20 2023");
        assert_eq!(at(Form::History), "2023-11-14.22:13:20");
        assert_eq!(at(Form::Event), "Nov 14 2023 22:13:20");
        assert_eq!(at(Form::Locale), "Tue Nov 14 22:13:20 UTC 2023");
    }

    #[test]
    fn hours_and_days_are_padded_as_the_form_wants() {
        let early = 1_699_344_180; // 2023-11-07 08:03:00
        assert_eq!(
            date(early, Form::Minute, &TimeZone::UTC),
            "Tue Nov  7  8:03 2023"
        );
        assert_eq!(
            date(early, Form::Hold, &TimeZone::UTC),
            "Tue Nov  7 08:03 2023"
        );
    }

    #[test]
    fn absurd_seconds_are_shown_as_they_are() {
        let absurd = u64::MAX.to_string();
        assert_eq!(date(u64::MAX, Form::Ctime, &TimeZone::UTC), absurd);
    }
}
