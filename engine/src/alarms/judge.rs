//! Which events are alarms.

use super::errors::Gathered;
use super::levels::Levels;
use super::text::Draft;
use crate::events::Events;
use crate::pools::activity::scan_of;
use crate::registry::imported::Imported;
use cenote_advisor::device;
use cenote_advisor::numbers::counted;
use cenote_alarms::{Alarm, AlarmKind, AlarmLimits, AlarmSeverity, Journal};
use cenote_base::Env;
use cenote_control::model::{ErrorKind, ErrorRecord, Event, Scan, VdevState, shell_word};
use std::sync::Arc;

/// Which events were judged, and what was reported.
#[derive(Debug, Default)]
pub(super) struct Judge {
    /// The number of the first event that was not judged yet.
    next: u64,
    gathered: Gathered,
    levels: Levels,
}

/// A value of an event as it was before it was printed.
fn detail<'a>(event: &'a Event, name: &str) -> Option<&'a str> {
    let mut found = event.details.iter().filter(|(key, _)| key == name);
    found.next().map(|(_, value)| value.trim_matches('"'))
}

/// A number of an event.
fn number(event: &Event, name: &str) -> Option<u64> {
    let text = detail(event, name)?.strip_prefix("0x")?;
    u64::from_str_radix(text, 16).ok()
}

impl Judge {
    /// The alarms since the last look; what went wrong is written down.
    pub fn look(
        &mut self,
        events: &Events,
        env: &dyn Env,
        pools: &[Arc<Imported>],
        journal: &mut Journal,
        (limits, host): (&AlarmLimits, &str),
    ) -> Vec<Alarm> {
        let now = env.monotonic();
        let wall = env.wall_clock();
        let (new, next) = events.numbered(self.next);
        self.next = next;
        let mut alarms = Vec::new();
        for (event_id, pool, event) in new {
            let found = pools.iter().find(|imported| imported.name() == pool);
            let found = found.map(Arc::as_ref);
            if let Some(imported) = found
                && let Some(device) = gathered_under(&event)
            {
                let guid = imported.load_guid;
                self.gathered.note(guid, device, event_id, &event, now);
            }
            if let Some(imported) = found
                && let Some(record) = record(&event)
            {
                journal.add(imported.pool.guid().0, record);
            }
            let draft = of_event(event_id, &pool, &event, found);
            alarms.extend(draft.map(|draft| draft.finish(found, host)));
        }
        for (pool, record) in self.gathered.count(pools, now, wall.as_secs()) {
            journal.add(pool, record);
        }
        let mut due = self.gathered.due(events, pools, now, limits);
        due.extend(self.levels.due(events, pools, wall, limits));
        let due = due.into_iter();
        alarms.extend(due.map(|(imported, draft)| draft.finish(Some(&imported), host)));
        alarms
    }
}

/// What an event says of the history of errors. Errors of devices are counted elsewhere.
fn record(event: &Event) -> Option<ErrorRecord> {
    let kind = match event.class.as_str() {
        "resource.fs.zfs.statechange" | "ereport.fs.zfs.vdev.open_failed" => {
            let is_device = detail(event, "vdev_type").is_some_and(is_device);
            let state = state(number(event, "vdev_state")?)?;
            is_device.then_some(ErrorKind::State { state })?
        }
        "ereport.fs.zfs.data" => ErrorKind::Data { reads: 1 },
        "ereport.fs.zfs.io_failure" => ErrorKind::Suspended,
        _ => return None,
    };
    let guid = match kind {
        ErrorKind::State { .. } => number(event, "vdev_guid").unwrap_or_default(),
        _ => 0,
    };
    let path = detail(event, "vdev_path").filter(|_| guid != 0);
    let unnamed = || match guid {
        0 => String::new(),
        guid => guid.to_string(),
    };
    Some(ErrorRecord {
        first: event.seconds,
        last: event.seconds,
        device: path.map_or_else(unnamed, str::to_owned),
        guid,
        kind,
    })
}

/// Whether a vdev of this type is a device; what is above one follows from it.
fn is_device(kind: &str) -> bool {
    ["disk", "file", "dspare", "missing"].contains(&kind)
}

/// A state by its number (format/1c: `vdev_state_t`).
fn state(number: u64) -> Option<VdevState> {
    Some(match number {
        2 => VdevState::Offline,
        3 => VdevState::Removed,
        4 => VdevState::CantOpen,
        5 => VdevState::Faulted,
        6 => VdevState::Degraded,
        7 => VdevState::Online,
        _ => return None,
    })
}

/// Under which device an event is gathered: 0 for damaged data.
fn gathered_under(event: &Event) -> Option<u64> {
    match event.class.as_str() {
        "ereport.fs.zfs.checksum" | "ereport.fs.zfs.io" => number(event, "vdev_guid"),
        "ereport.fs.zfs.data" => Some(0),
        _ => None,
    }
}

/// The alarm for an event, if it is reported at once.
fn of_event(
    event_id: u64,
    pool: &str,
    event: &Event,
    imported: Option<&Imported>,
) -> Option<Draft> {
    let draft = |kind, severity, what: String, advice: String| Draft {
        kind,
        severity,
        pool: pool.to_owned(),
        device: None,
        what,
        advice,
        event: event.clone(),
        event_id,
    };
    let class = event.class.as_str();
    if let Some(words) = class.strip_prefix("sysevent.fs.zfs.") {
        let scan = words.strip_suffix("_finish")?;
        let kinds = ["scrub", "resilver", "errorscrub"];
        let name = kinds.into_iter().find(|name| *name == scan)?;
        let (severity, what) = of_scan(name, event, imported);
        let advice = match severity {
            AlarmSeverity::Note => String::new(),
            _ => format!(
                "restore the files that 'zpool status -v {}' lists",
                shell_word(pool)
            ),
        };
        return Some(draft(AlarmKind::Scan, severity, what, advice));
    }
    match class {
        "ereport.fs.zfs.io_failure" => Some(draft(
            AlarmKind::Suspended,
            AlarmSeverity::Danger,
            "suspended: reads or writes failed, and all changes wait".to_owned(),
            format!(
                "bring its devices back, then run 'zpool clear {}'",
                shell_word(pool)
            ),
        )),
        "resource.fs.zfs.statechange" | "ereport.fs.zfs.vdev.open_failed" => {
            let (severity, state) = of_state(event)?;
            let guid = number(event, "vdev_guid").unwrap_or_default();
            let device = match detail(event, "vdev_path") {
                Some(path) => path.to_owned(),
                None => guid.to_string(),
            };
            let what = format!("device {device} {state}");
            let advice = format!("see what 'cenote health {}' says of it", shell_word(pool));
            Some(Draft {
                device: Some(device),
                ..draft(AlarmKind::Device, severity, what, advice)
            })
        }
        _ => None,
    }
}

/// The alarm for a device's new state, if that state is one.
fn of_state(event: &Event) -> Option<(AlarmSeverity, &'static str)> {
    detail(event, "vdev_type").filter(|kind| is_device(kind))?;
    device::became(state(number(event, "vdev_state")?)?)
}

/// How a scan ended.
fn of_scan(name: &str, event: &Event, imported: Option<&Imported>) -> (AlarmSeverity, String) {
    let errors = number(event, "scan_errors").unwrap_or_default();
    let scan = imported.and_then(|imported| scan_of(&imported.pool));
    let took = |scan: Scan| {
        let seconds = scan.end_time.saturating_sub(scan.start_time);
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        let verb = if name == "resilver" {
            "brought"
        } else {
            "repaired"
        };
        format!(
            " after {hours}:{minutes:02}:{:02}, {} bytes {verb}",
            seconds % 60,
            scan.processed
        )
    };
    let how = scan.map_or(String::new(), took);
    match errors {
        0 => (
            AlarmSeverity::Note,
            format!("{name} finished{how}, without errors"),
        ),
        errors => (AlarmSeverity::Danger, {
            let verb = if errors == 1 { "is" } else { "are" };
            let blocks = counted(errors, "block");
            format!("{name} finished{how}, {blocks} {verb} damaged")
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(class: &str, details: &[(&str, &str)]) -> Event {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Event {
            class: class.to_owned(),
            seconds: 100,
            nanoseconds: 0,
            details: details.iter().map(owned).collect(),
        }
    }

    /// The kind, severity and words of the alarm that an event is.
    fn told(event: &Event) -> Option<(AlarmKind, AlarmSeverity, String)> {
        let draft = of_event(3, "tank", event, None)?;
        let alarm = draft.finish(None, "nas");
        assert!(alarm.subject.starts_with("pool tank on nas: "));
        Some((alarm.kind, alarm.severity, alarm.subject))
    }

    fn device(state: &str, kind: &str) -> Event {
        let details = [
            ("vdev_type", kind),
            ("vdev_state", state),
            ("vdev_guid", "0x5"),
            ("vdev_path", "\"/dev/sdb\""),
        ];
        event("resource.fs.zfs.statechange", &details)
    }

    #[test]
    fn devices_that_fail_are_told_and_those_above_them_are_not() {
        let (kind, severity, subject) = told(&device("0x5", "\"disk\"")).expect("an alarm");
        assert_eq!((kind, severity), (AlarmKind::Device, AlarmSeverity::Danger));
        assert!(subject.ends_with("device /dev/sdb is out of service (FAULTED)"));
        let degraded = told(&device("0x6", "\"file\"")).expect("an alarm");
        assert_eq!(degraded.1, AlarmSeverity::Attention);
        for quiet in [
            device("0x7", "\"disk\""),
            device("0x2", "\"disk\""),
            device("0x6", "\"mirror\""),
            event("sysevent.fs.zfs.pool_import", &[]),
            event("sysevent.fs.zfs.scrub_start", &[]),
            event("sysevent.fs.zfs.vdev_finish", &[]),
            event("resource.fs.zfs.statechange", &[]),
        ] {
            assert_eq!(told(&quiet), None, "{quiet:?}");
        }
    }

    #[test]
    fn scans_are_told_by_how_they_ended_and_suspensions_at_once() {
        let finish = |errors| event("sysevent.fs.zfs.scrub_finish", &[("scan_errors", errors)]);
        let (kind, severity, subject) = told(&finish("0x0")).expect("an alarm");
        assert_eq!((kind, severity), (AlarmKind::Scan, AlarmSeverity::Note));
        assert!(
            subject.ends_with("scrub finished, without errors"),
            "{subject}"
        );
        let (_, severity, subject) = told(&finish("0x10")).expect("an alarm");
        assert_eq!(severity, AlarmSeverity::Danger);
        assert!(subject.ends_with("16 blocks are damaged"), "{subject}");
        let suspended = told(&event("ereport.fs.zfs.io_failure", &[])).expect("an alarm");
        assert_eq!(suspended.0, AlarmKind::Suspended);
    }

    #[test]
    fn the_history_keeps_what_devices_became() {
        let kept = record(&device("0x3", "\"disk\"")).expect("a record");
        let state = VdevState::Removed;
        assert_eq!((kept.guid, kept.kind), (5, ErrorKind::State { state }));
        assert_eq!((kept.device.as_str(), kept.first), ("/dev/sdb", 100));
        assert_eq!(record(&device("0x5", "\"raidz\"")), None);
        let data = record(&event("ereport.fs.zfs.data", &[("vdev_path", "\"x\"")]));
        assert!(data.is_some_and(|data| data.guid == 0 && data.device.is_empty()));
    }
}
