//! Slowly growing values: the space in use, and the time since the last scrub.
//!
//! Each is reported once when it passes its limit, and again only after it was below in between.
//! Usage that swings about the limit counts as below when it is [`SWING`] percentage points below.

use super::text::Draft;
use crate::devices::tree::vdev_tree;
use crate::events::Events;
use crate::pools::activity::scan_of;
use crate::registry::imported::Imported;
use cenote_advisor::limits::{NEARLY_FULL, consequence, days_since, last_read, passed};
use cenote_alarms::{AlarmKind, AlarmLimits, AlarmSeverity};
use cenote_control::model::shell_word;
use cenote_dsl::DatasetName;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Percentage points below a limit at which it may be reported again.
const SWING: u64 = 2;

/// What was reported about a pool.
#[derive(Debug, Default)]
struct Told {
    /// The limit of usage that was reported last, or 0.
    full: u64,
    scrub: bool,
}

/// What was reported about all pools.
#[derive(Debug, Default)]
pub(super) struct Levels {
    told: HashMap<u64, Told>,
}

/// The limit of usage to report now, if any, and the one that counts as reported from now on.
fn full(percent: u64, limit: u64, told: u64) -> (Option<u64>, u64) {
    if limit == 0 {
        return (None, 0);
    }
    let passed = passed(percent, limit);
    if passed > told {
        return (Some(passed), passed);
    }
    let is_below = told > passed && percent.saturating_add(SWING) <= told;
    (None, if is_below { passed } else { told })
}

/// Per cent of a pool's space in use.
fn capacity(imported: &Imported) -> u64 {
    let space = vdev_tree(&imported.pool).root.space;
    let used = u128::from(space.allocated) * 100;
    u64::try_from(used / u128::from(space.total.max(1))).unwrap_or(100)
}

/// When all of a pool was last read, in seconds; none while that is under way.
fn last_scrub(imported: &Imported) -> Option<u64> {
    last_read(scan_of(&imported.pool).as_ref(), || {
        let name = DatasetName::parse(imported.name()).ok()?;
        let root = imported.dsl().dataset(&name).ok()?;
        Some(root.phys().creation_time)
    })
}

impl Levels {
    /// Messages that are due.
    pub fn due(
        &mut self,
        events: &Events,
        pools: &[Arc<Imported>],
        wall: Duration,
        limits: &AlarmLimits,
    ) -> Vec<(Arc<Imported>, Draft)> {
        self.told
            .retain(|guid, _| pools.iter().any(|pool| pool.load_guid == *guid));
        let mut drafts = Vec::new();
        for imported in pools {
            let told = self.told.entry(imported.load_guid).or_default();
            let percent = capacity(imported);
            let (passed, now) = full(percent, limits.full_percent, told.full);
            told.full = now;
            if passed.is_some() {
                drafts.push((Arc::clone(imported), of_space(events, imported, percent)));
            }
            let last = last_scrub(imported).filter(|_| limits.scrub_days > 0);
            let days = last.map(|last| days_since(last, wall.as_secs()));
            let is_due = days.is_some_and(|days| days >= limits.scrub_days);
            if let Some(days) = days.filter(|_| is_due && !told.scrub) {
                drafts.push((Arc::clone(imported), of_scrub(events, imported, days)));
            }
            told.scrub = is_due;
        }
        drafts
    }
}

fn of_space(events: &Events, imported: &Imported, percent: u64) -> Draft {
    let name = imported.name();
    let more = vec![("pool_capacity".to_owned(), format!("{percent:#x}"))];
    let class = "sysevent.fs.cenote.pool_full";
    let (event_id, event) = events.post_with(class, &imported.pool, more);
    let severity = match percent >= NEARLY_FULL {
        true => AlarmSeverity::Danger,
        false => AlarmSeverity::Attention,
    };
    let follows = consequence(percent);
    Draft {
        kind: AlarmKind::Full,
        severity,
        pool: name.to_owned(),
        device: None,
        what: format!("{percent} % of its space is in use: {follows}"),
        advice: format!(
            "free space ('cenote space {}' says what would) or add devices",
            shell_word(name)
        ),
        event,
        event_id,
    }
}

fn of_scrub(events: &Events, imported: &Imported, days: u64) -> Draft {
    let name = imported.name();
    let more = vec![("scrub_age_days".to_owned(), format!("{days:#x}"))];
    let class = "sysevent.fs.cenote.scrub_missed";
    let (event_id, event) = events.post_with(class, &imported.pool, more);
    Draft {
        kind: AlarmKind::Scrub,
        severity: AlarmSeverity::Attention,
        pool: name.to_owned(),
        device: None,
        what: format!("no scrub for {days} days"),
        advice: format!("run 'zpool scrub {}'", shell_word(name)),
        event,
        event_id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_told_once_until_the_pool_was_below_it() {
        let mut told = 0;
        let mut at = |percent| {
            let (passed, now) = full(percent, 80, told);
            told = now;
            passed
        };
        assert_eq!(at(79), None);
        assert_eq!(at(81), Some(80));
        assert_eq!(at(79), None);
        assert_eq!(at(80), None, "it swings about the limit");
        assert_eq!(at(96), Some(95));
        assert_eq!(at(90), None);
        assert_eq!(at(95), Some(95));
        assert_eq!(at(50), None);
        assert_eq!(at(80), Some(80));
        assert_eq!(full(100, 0, 0), (None, 0));
    }
}
