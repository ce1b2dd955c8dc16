//! Runs a program for each alarm. It gets the environment of OpenZFS's event daemon, so that its
//! programs (zedlets) can be used (zed(8)).
//!
//! Every field of the event is a variable `ZEVENT_NAME`. Guids are hexadecimal, other numbers
//! decimal. Numbers with names also have a variable that ends in `_STR`. The message is in
//! `CENOTE_ALARM_*`, and its text is also the standard input.

use super::child;
use cenote_alarms::{Alarm, AlarmSendError, AlarmWay};
use jiff::{Timestamp, tz::TimeZone};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// One program.
pub struct Program {
    pub path: PathBuf,
    pub arguments: Vec<String>,
    pub limit: Duration,
}

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

/// The variables of an alarm.
pub fn variables(alarm: &Alarm, zone: &TimeZone) -> Vec<(String, String)> {
    let event = &alarm.event;
    let (seconds, nanoseconds) = (event.seconds, event.nanoseconds);
    let time = i64::try_from(seconds).ok().and_then(|seconds| {
        let zoned = Timestamp::from_second(seconds).ok()?.to_zoned(zone.clone());
        Some(zoned.strftime("%Y-%m-%d %H:%M:%S%z").to_string())
    });
    let text = |text: &str| text.to_owned();
    let mut all = vec![
        (text("ZEVENT_CLASS"), event.class.clone()),
        (text("ZEVENT_SUBCLASS"), text(subclass(&event.class))),
        (text("ZEVENT_EID"), alarm.event_id.to_string()),
        (text("ZEVENT_TIME"), format!("{seconds} {nanoseconds}")),
        (text("ZEVENT_TIME_SECS"), seconds.to_string()),
        (text("ZEVENT_TIME_NSECS"), nanoseconds.to_string()),
        (text("ZEVENT_TIME_STRING"), time.unwrap_or_default()),
        (text("CENOTE_ALARM_KIND"), text(alarm.kind.word())),
        (text("CENOTE_ALARM_SEVERITY"), text(alarm.severity.word())),
        (text("CENOTE_ALARM_SUBJECT"), alarm.subject.clone()),
        (text("CENOTE_ALARM_HOST"), alarm.host.clone()),
        (text("CENOTE_ALARM_LOST"), alarm.lost.to_string()),
    ];
    let told = |name: &str| !["class", "eid"].contains(&name);
    for (name, value) in event.details.iter().filter(|(name, _)| told(name)) {
        add_detail(&mut all, name, value);
    }
    // A variable must not contain NUL, which would end it.
    for (_, value) in &mut all {
        value.retain(|letter| letter != '\0');
    }
    all
}

fn add_detail(all: &mut Vec<(String, String)>, name: &str, value: &str) {
    let variable = format!("ZEVENT_{}", name.to_uppercase());
    let number = value.strip_prefix("0x");
    let Some(number) = number.and_then(|digits| u64::from_str_radix(digits, 16).ok()) else {
        all.push((variable, value.trim_matches('"').to_owned()));
        return;
    };
    let shown = match name.ends_with("_guid") {
        true => format!("0x{number:016X}"),
        false => number.to_string(),
    };
    if matches!(name, "vdev_state" | "vdev_laststate") {
        let index = usize::try_from(number).ok();
        let word = index.and_then(|index| VDEV_STATES.get(index));
        let word = word.copied().unwrap_or("UNKNOWN");
        all.push((format!("{variable}_STR"), word.to_owned()));
    }
    all.push((variable, shown));
}

impl AlarmWay for Program {
    fn send(&self, alarm: &Alarm) -> Result<(), AlarmSendError> {
        let mut command = Command::new(&self.path);
        command.args(&self.arguments);
        command.envs(variables(alarm, &TimeZone::system()));
        child::run(command, alarm.text.clone().into_bytes(), self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_alarms::{AlarmKind, AlarmSeverity};
    use cenote_control::model::Event;

    #[test]
    fn programs_of_the_event_daemon_find_what_they_know() {
        let details = [
            ("class", "\"resource.fs.zfs.statechange\""),
            ("pool", "\"tank\""),
            ("pool_guid", "0xda872717f3687d9d"),
            ("vdev_guid", "0x5"),
            ("vdev_state", "0x5"),
            ("vdev_path", "\"/dev/sdb\""),
            ("vdev_laststate", "0x7"),
            ("eid", "0x11"),
        ];
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let alarm = Alarm {
            kind: AlarmKind::Device,
            severity: AlarmSeverity::Danger,
            pool: "tank".to_owned(),
            device: Some("/dev/sdb".to_owned()),
            host: "nas".to_owned(),
            subject: "s".to_owned(),
            text: String::new(),
            event: Event {
                class: "resource.fs.zfs.statechange".to_owned(),
                seconds: 1_700_000_000,
                nanoseconds: 5,
                details: details.map(owned).to_vec(),
            },
            event_id: 17,
            lost: 0,
        };
        let all = variables(&alarm, &TimeZone::UTC);
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
            ("ZEVENT_VDEV_PATH", "/dev/sdb"),
        ];
        for pair in expected.map(owned) {
            assert!(all.contains(&pair), "{pair:?} in {all:?}");
        }
        let names: std::collections::HashSet<&String> = all.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), all.len());
        assert_eq!(
            subclass("ereport.fs.zfs.vdev.open_failed"),
            "vdev.open_failed"
        );
        assert_eq!(subclass("sysevent.fs.cenote.test"), "test");
    }
}
