//! Runs a program for each alarm. It gets the variables of a zedlet ([`cenote_zed::variables`]), so
//! that zedlets can be used. The message is in `CENOTE_ALARM_*`, and its text is also the standard
//! input.

use super::child;
use cenote_alarms::{Alarm, AlarmSendError, AlarmWay};
use jiff::tz::TimeZone;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// One program.
pub struct Program {
    pub path: PathBuf,
    pub arguments: Vec<String>,
    pub limit: Duration,
}

/// The variables of an alarm.
fn variables(alarm: &Alarm, zone: &TimeZone) -> Vec<(String, String)> {
    let mut all = cenote_zed::variables(&alarm.event, alarm.event_id, zone);
    let own = [
        ("KIND", alarm.kind.word().to_owned()),
        ("SEVERITY", alarm.severity.word().to_owned()),
        ("SUBJECT", alarm.subject.clone()),
        ("HOST", alarm.host.clone()),
        ("LOST", alarm.lost.to_string()),
    ];
    // A variable cannot contain NUL, which would end it.
    let own = own.map(|(name, value)| (format!("CENOTE_ALARM_{name}"), value.replace('\0', "")));
    all.extend(own);
    all
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
    fn programs_get_the_event_and_the_message() {
        let alarm = Alarm {
            kind: AlarmKind::Device,
            severity: AlarmSeverity::Danger,
            pool: "tank".to_owned(),
            device: Some("/dev/sdb".to_owned()),
            host: "nas".to_owned(),
            subject: "a\0b".to_owned(),
            text: String::new(),
            event: Event {
                class: "resource.fs.zfs.statechange".to_owned(),
                seconds: 1_700_000_000,
                nanoseconds: 5,
                details: vec![("pool".to_owned(), "\"tank\"".to_owned())],
            },
            event_id: 17,
            lost: 3,
        };
        let all = variables(&alarm, &TimeZone::UTC);
        let expected = [
            ("ZEVENT_SUBCLASS", "statechange"),
            ("ZEVENT_EID", "17"),
            ("ZEVENT_POOL", "tank"),
            ("CENOTE_ALARM_KIND", "device"),
            ("CENOTE_ALARM_SEVERITY", "danger"),
            ("CENOTE_ALARM_SUBJECT", "ab"),
            ("CENOTE_ALARM_HOST", "nas"),
            ("CENOTE_ALARM_LOST", "3"),
        ];
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        for pair in expected.map(owned) {
            assert!(all.contains(&pair), "{pair:?} in {all:?}");
        }
    }
}
