//! An event as variables of the environment (zed(8), ZEDLETS).
//!
//! Each field is `ZEVENT_` and its name, in uppercase, with `_` for what is neither letter nor
//! digit. Guids are hexadecimal, other numbers decimal; the numbers of a list are separated by
//! spaces. States of vdevs have a second variable that ends in `_STR`.

use cenote_control::model::Event;
use jiff::{Timestamp, tz::TimeZone};

/// The names of vdev states, by number (format/1c).
const VDEV_STATES: [&str; 8] = [
    "UNKNOWN", "CLOSED", "OFFLINE", "REMOVED", "UNAVAIL", "FAULTED", "DEGRADED", "ONLINE",
];

/// The last part of a class, which names the event.
pub fn subclass(class: &str) -> &str {
    let areas = ["ereport", "sysevent", "resource"];
    let rest = areas.iter().find_map(|area| class.strip_prefix(area));
    let rest = rest.and_then(|rest| rest.strip_prefix(".fs."));
    rest.and_then(|rest| rest.split_once('.'))
        .map_or(class, |(_, subclass)| subclass)
}

/// The number of an event, from its fields; 0 if it has none.
pub(crate) fn number_of(event: &Event) -> u64 {
    let mut fields = event.details.iter();
    let field = fields.find(|(name, _)| name == "eid");
    field
        .and_then(|(_, value)| number(value))
        .unwrap_or_default()
}

/// The variables of the event with this number, in `zone`.
pub fn variables(event: &Event, id: u64, zone: &TimeZone) -> Vec<(String, String)> {
    let (seconds, nanoseconds) = (event.seconds, event.nanoseconds);
    let time = i64::try_from(seconds).ok().and_then(|seconds| {
        let zoned = Timestamp::from_second(seconds).ok()?.to_zoned(zone.clone());
        Some(zoned.strftime("%Y-%m-%d %H:%M:%S%z").to_string())
    });
    let text = |text: &str| text.to_owned();
    let mut all = vec![
        (text("ZEVENT_CLASS"), event.class.clone()),
        (text("ZEVENT_SUBCLASS"), text(subclass(&event.class))),
        (text("ZEVENT_EID"), id.to_string()),
        (text("ZEVENT_TIME"), format!("{seconds} {nanoseconds}")),
        (text("ZEVENT_TIME_SECS"), seconds.to_string()),
        (text("ZEVENT_TIME_NSECS"), nanoseconds.to_string()),
        (text("ZEVENT_TIME_STRING"), time.unwrap_or_default()),
    ];
    let is_further = |name: &str| !["class", "eid", "time"].contains(&name);
    for (name, value) in event.details.iter().filter(|(name, _)| is_further(name)) {
        add_field(&mut all, name, value);
    }
    // A variable cannot contain NUL, which would end it.
    for (_, value) in &mut all {
        value.retain(|letter| letter != '\0');
    }
    all
}

fn variable_of(name: &str) -> String {
    let letter = |letter: char| match letter.is_ascii_alphanumeric() {
        true => letter.to_ascii_uppercase(),
        false => '_',
    };
    format!("ZEVENT_{}", name.chars().map(letter).collect::<String>())
}

/// A number as `zpool events -v` prints it.
fn number(value: &str) -> Option<u64> {
    u64::from_str_radix(value.strip_prefix("0x")?, 16).ok()
}

fn add_field(all: &mut Vec<(String, String)>, name: &str, value: &str) {
    let variable = variable_of(name);
    let numbers: Option<Vec<u64>> = value.split_whitespace().map(number).collect();
    let Some(numbers) = numbers.filter(|numbers| !numbers.is_empty()) else {
        let unquoted = value
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        all.push((variable, unquoted.unwrap_or(value).to_owned()));
        return;
    };
    if matches!(name, "vdev_state" | "vdev_laststate") {
        let index = usize::try_from(numbers[0]).ok();
        let word = index.and_then(|index| VDEV_STATES.get(index));
        let word = word.copied().unwrap_or("UNKNOWN");
        all.push((format!("{variable}_STR"), word.to_owned()));
    }
    let shown = numbers.iter().map(|number| match is_guid(name) {
        true => format!("0x{number:016X}"),
        false => number.to_string(),
    });
    all.push((variable, shown.collect::<Vec<String>>().join(" ")));
}

/// Whether a field holds guids.
fn is_guid(name: &str) -> bool {
    name.ends_with("_guid") || name.ends_with("_guids")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_the_event_daemon_find_what_they_know() {
        let details = [
            ("class", "\"resource.fs.zfs.statechange\""),
            ("pool", "\"tank\""),
            ("pool_guid", "0xda872717f3687d9d"),
            ("vdev_guid", "0x5"),
            ("vdev_state", "0x5"),
            ("vdev_path", "\"/dev/\"sdb\"\""),
            ("vdev_laststate", "0x7"),
            ("vdev_spare_guids", "0x1 0xff"),
            ("cksum_expected", "0x1 0xff"),
            ("a.b-c", "\"\""),
            ("eid", "0x11"),
        ];
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let event = Event {
            class: "resource.fs.zfs.statechange".to_owned(),
            seconds: 1_700_000_000,
            nanoseconds: 5,
            details: details.map(owned).to_vec(),
        };
        assert_eq!(number_of(&event), 17);
        let all = variables(&event, 17, &TimeZone::UTC);
        let expected = [
            ("ZEVENT_CLASS", "resource.fs.zfs.statechange"),
            ("ZEVENT_SUBCLASS", "statechange"),
            ("ZEVENT_EID", "17"),
            ("ZEVENT_TIME", "1700000000 5"),
            ("ZEVENT_TIME_SECS", "1700000000"),
            ("ZEVENT_TIME_NSECS", "5"),
            ("ZEVENT_TIME_STRING", "2023-11-14 22:13:20+0000"),
            ("ZEVENT_POOL", "tank"),
            ("ZEVENT_POOL_GUID", "0xDA872717F3687D9D"),
            ("ZEVENT_VDEV_GUID", "0x0000000000000005"),
            ("ZEVENT_VDEV_STATE", "5"),
            ("ZEVENT_VDEV_STATE_STR", "FAULTED"),
            ("ZEVENT_VDEV_LASTSTATE_STR", "ONLINE"),
            ("ZEVENT_VDEV_PATH", "/dev/\"sdb\""),
            (
                "ZEVENT_VDEV_SPARE_GUIDS",
                "0x0000000000000001 0x00000000000000FF",
            ),
            ("ZEVENT_CKSUM_EXPECTED", "1 255"),
            ("ZEVENT_A_B_C", ""),
        ];
        for pair in expected.map(owned) {
            assert!(all.contains(&pair), "{pair:?} in {all:?}");
        }
        let names: std::collections::HashSet<&String> = all.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), all.len());
        let deep = "ereport.fs.zfs.vdev.open_failed";
        assert_eq!(subclass(deep), "vdev.open_failed");
        assert_eq!(subclass("sysevent.fs.cenote.test"), "test");
    }
}
