//! Errors of devices, gathered: a failing disk makes thousands, and one message reports them all.
//!
//! The first error of a device is reported after [`AlarmLimits::gather`], with those that came
//! until then. Later errors are counted and reported in one message each [`AlarmLimits::repeat`].
//! They are counted by the devices' own counters, so that no limit of events hides any. Damaged
//! data is treated in the same way, for each pool.

use super::text::{Draft, device_name};
use crate::devices::tree::{all_vdevs, vdev_tree};
use crate::events::Events;
use crate::registry::imported::Imported;
use cenote_advisor::means::Means;
use cenote_alarms::{AlarmKind, AlarmLimits, AlarmSeverity};
use cenote_control::model::{ErrorKind, ErrorRecord, Event, Vdev, shell_word};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The import and the device; 0 for damaged data of the pool.
type Key = (u64, u64);

/// Failed reads, failed writes, wrong checksums.
pub(super) type Errors = [u64; 3];

/// Errors that belong into one message.
#[derive(Debug, Default)]
struct Group {
    /// The time of the first one that was not reported yet.
    since: Duration,
    /// When errors were last reported.
    told: Option<Duration>,
    untold: Errors,
    /// The newest event about them.
    event: Option<(u64, Event)>,
}

impl Group {
    fn is_due(&self, now: Duration, limits: &AlarmLimits) -> bool {
        let past = |since: Duration| now.saturating_sub(since);
        self.untold != Errors::default()
            && match self.told {
                Some(told) => past(told) >= limits.repeat,
                None => past(self.since) >= limits.gather,
            }
    }

    /// Whether it can be forgotten.
    fn is_over(&self, now: Duration, limits: &AlarmLimits) -> bool {
        let told = self
            .told
            .is_none_or(|told| now.saturating_sub(told) >= limits.repeat);
        self.untold == Errors::default() && told
    }

    fn add(&mut self, now: Duration, errors: Errors) {
        if self.untold == Errors::default() {
            self.since = now;
        }
        for (sum, number) in self.untold.iter_mut().zip(errors) {
            *sum = sum.saturating_add(number);
        }
    }

    fn take(&mut self, now: Duration) -> (Errors, Option<(u64, Event)>) {
        self.told = Some(now);
        (std::mem::take(&mut self.untold), self.event.take())
    }
}

/// What is counted of all pools.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    counters: HashMap<Key, Errors>,
    groups: HashMap<Key, Group>,
}

impl Gathered {
    /// Keeps an event about errors of a device for the message about them.
    pub fn note(&mut self, load_guid: u64, device: u64, number: u64, event: &Event, now: Duration) {
        let group = self.groups.entry((load_guid, device)).or_default();
        group.event = Some((number, event.clone()));
        if device == 0 {
            group.add(now, [1, 0, 0]);
        }
    }

    /// Adds what the counters grew by; what they grew by, with the guid of the pool.
    pub fn count(
        &mut self,
        pools: &[Arc<Imported>],
        now: Duration,
        seconds: u64,
    ) -> Vec<(u64, ErrorRecord)> {
        let is_there = |load_guid: u64| pools.iter().any(|pool| pool.load_guid == load_guid);
        self.counters.retain(|key, _| is_there(key.0));
        self.groups.retain(|key, _| is_there(key.0));
        let mut grown = Vec::new();
        for imported in pools {
            let tree = vdev_tree(&imported.pool);
            let vdevs = all_vdevs(&tree);
            for leaf in vdevs.into_iter().filter(|vdev| vdev.kind.is_leaf()) {
                let key = (imported.load_guid, leaf.guid);
                let counters = &leaf.counters;
                let found = [
                    counters.read_errors,
                    counters.write_errors,
                    counters.checksum_errors,
                ];
                let before = self.counters.insert(key, found).unwrap_or_default();
                let growth = growth(before, found);
                if growth != Errors::default() {
                    self.groups.entry(key).or_default().add(now, growth);
                    grown.push((imported.pool.guid().0, record(leaf, growth, seconds)));
                }
            }
        }
        grown
    }

    /// Messages that are due.
    pub fn due(
        &mut self,
        events: &Events,
        pools: &[Arc<Imported>],
        now: Duration,
        limits: &AlarmLimits,
    ) -> Vec<(Arc<Imported>, Draft)> {
        let mut drafts = Vec::new();
        for imported in pools {
            let own = self.groups.iter_mut();
            let own = own.filter(|(key, _)| key.0 == imported.load_guid);
            for (key, group) in own.filter(|(_, group)| group.is_due(now, limits)) {
                let (errors, event) = group.take(now);
                let draft = match key.1 {
                    0 => event.map(|event| of_data(imported, errors[0], event)),
                    device => of_device(events, imported, device, errors, event),
                };
                drafts.extend(draft.map(|draft| (Arc::clone(imported), draft)));
            }
        }
        self.groups.retain(|_, group| !group.is_over(now, limits));
        drafts
    }
}

fn record(leaf: &Vdev, [read, write, checksum]: Errors, seconds: u64) -> ErrorRecord {
    ErrorRecord {
        first: seconds,
        last: seconds,
        device: device_name(leaf),
        guid: leaf.guid,
        kind: ErrorKind::Errors {
            read,
            write,
            checksum,
        },
    }
}

/// The growth of the counters; `zpool clear` resets them.
fn growth(before: Errors, now: Errors) -> Errors {
    let is_cleared = before.iter().zip(now).any(|(before, now)| now < *before);
    let before = if is_cleared {
        Errors::default()
    } else {
        before
    };
    let mut growth = now;
    for (number, before) in growth.iter_mut().zip(before) {
        *number -= before;
    }
    growth
}

fn of_data(imported: &Imported, times: u64, (event_id, event): (u64, Event)) -> Draft {
    let name = imported.name();
    let times = match times {
        1 => "a read".to_owned(),
        times => format!("at least {times} reads"),
    };
    Draft {
        kind: AlarmKind::Data,
        severity: AlarmSeverity::Danger,
        pool: name.to_owned(),
        device: None,
        what: format!("data is damaged and cannot be repaired: {times} failed"),
        advice: format!(
            "restore the files that 'zpool status -v {0}' lists, then run 'zpool scrub {0}'",
            shell_word(name)
        ),
        event,
        event_id,
    }
}

/// The number of errors with the words of each kind.
pub(super) fn in_words(errors: Errors) -> String {
    let kinds = errors.iter().zip(["read", "write", "checksum"]);
    let counted = kinds.filter(|(number, _)| **number > 0);
    let counted: Vec<String> = counted
        .map(|(number, kind)| format!("{number} {kind}"))
        .collect();
    let plural = if errors.iter().sum::<u64>() == 1 {
        ""
    } else {
        "s"
    };
    format!("{} error{plural}", counted.join(", "))
}

fn of_device(
    events: &Events,
    imported: &Imported,
    device: u64,
    errors: Errors,
    event: Option<(u64, Event)>,
) -> Option<Draft> {
    let tree = vdev_tree(&imported.pool);
    let vdev = all_vdevs(&tree)
        .into_iter()
        .find(|vdev| vdev.guid == device)?;
    let shown = device_name(vdev);
    let (event_id, event) = event.unwrap_or_else(|| {
        // A failed write leaves no report of its own.
        let text = |text: &str| format!("\"{text}\"");
        let number = |number: u64| format!("{number:#x}");
        let more = [
            ("vdev_guid", number(vdev.guid)),
            ("vdev_type", text(vdev.kind.word())),
            ("vdev_path", text(&shown)),
            ("vdev_read_errors", number(vdev.counters.read_errors)),
            ("vdev_write_errors", number(vdev.counters.write_errors)),
            ("vdev_cksum_errors", number(vdev.counters.checksum_errors)),
        ];
        let more = more.map(|(name, value)| (name.to_owned(), value));
        events.post_with("ereport.fs.zfs.io", &imported.pool, more.to_vec())
    });
    let name = imported.name();
    Some(Draft {
        kind: AlarmKind::Errors,
        severity: AlarmSeverity::Attention,
        pool: name.to_owned(),
        what: format!("device {shown} made {}", in_words(errors)),
        advice: format!(
            "{}, then run 'zpool scrub {}'",
            Means::of(vdev).look(),
            shell_word(name)
        ),
        device: Some(shown),
        event,
        event_id,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_after_a_clear_count_from_nothing() {
        assert_eq!(growth([1, 0, 5], [3, 0, 5]), [2, 0, 0]);
        assert_eq!(growth([1, 0, 5], [0, 0, 2]), [0, 0, 2]);
        assert_eq!(growth([1, 0, 5], [1, 0, 5]), [0, 0, 0]);
    }

    #[test]
    fn a_storm_is_one_message_and_then_one_each_interval() {
        let limits = AlarmLimits::default();
        let (gather, repeat) = (limits.gather.as_secs(), limits.repeat.as_secs());
        let mut group = Group::default();
        let mut told = Vec::new();
        // An error each second for two intervals.
        for second in 100..100 + gather + 2 * repeat {
            let now = Duration::from_secs(second);
            group.add(now, [1, 0, 2]);
            if group.is_due(now, &limits) {
                told.push((second - 100, group.take(now).0));
            }
        }
        let first = (gather, [gather + 1, 0, 2 * (gather + 1)]);
        let second = (gather + repeat, [repeat, 0, 2 * repeat]);
        assert_eq!(told, [first, second]);
        let end = Duration::from_secs(100 + gather + 3 * repeat);
        assert!(group.is_due(end, &limits) && !group.is_over(end, &limits));
        group.take(end);
        assert!(!group.is_over(end, &limits));
        assert!(group.is_over(end + limits.repeat, &limits));
    }

    #[test]
    fn numbers_are_put_into_words() {
        assert_eq!(in_words([1, 0, 0]), "1 read error");
        assert_eq!(in_words([2, 0, 3]), "2 read, 3 checksum errors");
    }
}
