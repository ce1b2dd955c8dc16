//! What is a finding: a pure function of what the daemon says about a pool.

use cenote_control::model::{
    AllocationClass, CheckpointState, DataErrorPlace, PoolHealth, PoolStatus, RunState, ScanKind,
    SpareUse, Vdev, VdevKind, VdevNaming, VdevState, shell_word,
};

use crate::finding::finding;
use crate::limits::{DAY, Limits, consequence};
use crate::means::Means;
use crate::numbers::{duration, nicebytes};
use crate::redundancy::{failures_by_design, holds_data};
use crate::{Finding, Severity, leaves, stores};

/// Damaged files that are named.
const FILES_MAX: usize = 10;

/// Values without effect that are named.
const WAITING_MAX: usize = 10;

/// Facts about a pool beside its status.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// Per cent of its space that is in use.
    pub capacity: Option<u64>,
    /// When it was made, in seconds.
    pub created: Option<u64>,
    /// The time, in seconds.
    pub now: u64,
}

/// Everything about a pool that an administrator should know.
pub fn findings(status: &PoolStatus, facts: &Facts, limits: Limits) -> Vec<Finding> {
    let mut found = Vec::new();
    of_pool(status, &mut found);
    of_files(status, &mut found);
    found.extend(leaves::findings(status));
    of_redundancy(status, &mut found);
    of_spares(status, &mut found);
    of_caches(status, &mut found);
    of_unread(status, &mut found);
    of_scans(status, limits, facts, &mut found);
    of_space(status, facts.capacity, limits, &mut found);
    found.extend(stores::findings(&status.name, &status.stores));
    of_waiting(status, &mut found);
    of_injected(status, &mut found);
    found
}

/// Values that wait for an approval have no effect. This is harmless, but the user may miss them.
fn of_waiting(status: &PoolStatus, found: &mut Vec<Finding>) {
    for value in status.waiting.iter().take(WAITING_MAX) {
        let what = format!(
            "{}={} on '{}' came with a stream or a pool from elsewhere, and has no effect here",
            value.property, value.value, value.dataset
        );
        let advice = format!(
            "'cenote approve {}' puts it into effect",
            shell_word(&value.dataset)
        );
        found.push(finding(Severity::Note, "", what, advice));
    }
    let more = status.waiting.len().saturating_sub(WAITING_MAX);
    if more > 0 {
        let what = format!("{more} more values came from elsewhere, and have no effect here");
        let advice = "'cenote approve' lists them".to_owned();
        found.push(finding(Severity::Note, "", what, advice));
    }
}

/// A drill that was not ended looks like a pool that fails.
fn of_injected(status: &PoolStatus, found: &mut Vec<Finding>) {
    let count = match status.injected {
        0 => return,
        1 => "1 fault is".to_owned(),
        more => format!("{more} faults are"),
    };
    let what = format!("{count} injected on purpose: errors of this pool may be a drill");
    let advice = "'zinject' lists them, and 'zinject -c all' ends them".to_owned();
    found.push(finding(Severity::Attention, "", what, advice));
}

fn of_pool(status: &PoolStatus, found: &mut Vec<Finding>) {
    let pool = shell_word(&status.name);
    let (what, advice) = match status.health {
        PoolHealth::Suspended => (
            "the pool is suspended: reads or writes failed, and all changes wait",
            format!("bring its devices back, then run 'zpool clear {pool}'"),
        ),
        PoolHealth::Faulted | PoolHealth::Unavail => (
            "the pool cannot be used: too many of its devices are missing or damaged",
            format!("bring devices back, then run 'zpool clear {pool}'; or restore a backup"),
        ),
        _ => return,
    };
    found.push(finding(Severity::Danger, "", what.to_owned(), advice));
}

fn of_files(status: &PoolStatus, found: &mut Vec<Finding>) {
    if status.error_count == 0 {
        return;
    }
    let names: Vec<String> = status.errors.iter().take(FILES_MAX).map(named).collect();
    let more = match status.error_count.saturating_sub(names.len() as u64) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let what = match names.is_empty() {
        true if status.error_count == 1 => "1 block or file is damaged".to_owned(),
        true => format!("{} blocks or files are damaged", status.error_count),
        false => format!("damaged: {}{more}", names.join(", ")),
    };
    let pool = shell_word(&status.name);
    let advice = format!(
        "restore these files from a backup, then run 'zpool scrub {pool}'; \
         'zpool status -v {pool}' lists them"
    );
    found.push(finding(Severity::Danger, "", what, advice));
}

fn named(error: &cenote_control::model::DataError) -> String {
    let text =
        |name: &cenote_control::model::RawName| String::from_utf8_lossy(&name.0).into_owned();
    match &error.place {
        DataErrorPlace::Path(path) => text(path),
        DataErrorPlace::File { dataset, path } => format!("{dataset}:{}", text(path)),
        DataErrorPlace::Object { dataset, object } => format!("{dataset}:<{object:#x}>"),
        DataErrorPlace::Metadata { object } => format!("<metadata>:<{object:#x}>"),
        DataErrorPlace::Unknown { objset, object } => format!("<{objset:#x}>:<{object:#x}>"),
    }
}

/// Data without a second copy is worth a word, but it may be meant.
fn of_redundancy(status: &PoolStatus, found: &mut Vec<Finding>) {
    let tops = || status.vdevs.root.children.iter();
    let name = |top: &Vdev| top.name(VdevNaming::default());
    let pool = shell_word(&status.name);
    let attach = |device: &str| {
        let device = shell_word(device);
        format!("'zpool attach {pool} {device} NEW' makes a mirror of it")
    };
    let bare = tops().filter(|top| holds_data(top) && failures_by_design(top) == 0);
    let bare: Vec<&Vdev> = bare.collect();
    if let Some(first) = bare.first() {
        let named = bare.iter().map(|top| match top.class {
            AllocationClass::Special => format!("{} (special)", name(top)),
            AllocationClass::Dedup => format!("{} (dedup)", name(top)),
            AllocationClass::Normal | AllocationClass::Log => name(top),
        });
        let named: Vec<String> = named.collect();
        let what = format!(
            "no redundancy: {}; damage is found, not repaired, and losing one loses the pool",
            named.join(", ")
        );
        let advice = attach(&leaf_name(first));
        found.push(finding(Severity::Note, "", what, advice));
    }
    let is_bare_log =
        |top: &&Vdev| top.class == AllocationClass::Log && failures_by_design(top) == 0;
    let is_there = |top: &&Vdev| !matches!(top.kind, VdevKind::Hole | VdevKind::Indirect);
    for log in tops().filter(is_bare_log).filter(is_there) {
        let what = "is a log without a mirror: if it fails in the same crash or power cut, what \
                    fsync confirmed in the last seconds is lost; other data is not at risk";
        let device = leaf_name(log);
        let advice = attach(&device);
        found.push(finding(Severity::Note, &device, what.to_owned(), advice));
    }
}

/// The name of a device of a vdev, which commands take.
fn leaf_name(vdev: &Vdev) -> String {
    let mut vdev = vdev;
    while let Some(first) = vdev.children.first() {
        vdev = first;
    }
    vdev.name(VdevNaming::default())
}

/// A cache has only copies, so its loss costs speed and no data.
fn of_caches(status: &PoolStatus, found: &mut Vec<Finding>) {
    let pool = shell_word(&status.name);
    let is_well = |state| matches!(state, VdevState::Online | VdevState::Unknown);
    for cache in &status.vdevs.cache {
        if is_well(cache.state) {
            continue;
        }
        let name = cache.name(VdevNaming::default());
        let word = shell_word(&name);
        let (what, advice) = match cache.state {
            VdevState::Offline => (
                "is a cache device that was taken offline; no data is lost",
                format!("run 'zpool online {pool} {word}'"),
            ),
            _ => (
                "is a cache device that cannot be used; no data is lost",
                format!(
                    "{}, or run 'zpool remove {pool} {word}' and add another",
                    Means::of(cache).bring_back()
                ),
            ),
        };
        found.push(finding(Severity::Attention, &name, what.to_owned(), advice));
    }
}

fn of_spares(status: &PoolStatus, found: &mut Vec<Finding>) {
    for spare in &status.vdevs.spares {
        if spare.state == VdevState::Online || spare.state == VdevState::Unknown {
            continue;
        }
        let name = spare.name(VdevNaming::default());
        let advice = advice_on_spare(status, spare, &shell_word(&name));
        let what = "is a spare that cannot be used".to_owned();
        found.push(finding(Severity::Attention, &name, what, advice));
    }
}

/// How to get rid of a spare that cannot be used.
///
/// `zpool remove` takes only spares that wait, and only in a pool that can be changed.
fn advice_on_spare(status: &PoolStatus, spare: &Vdev, name: &str) -> String {
    let pool = shell_word(&status.name);
    if spare.kind == VdevKind::DraidSpare {
        return "it is space on the devices of its dRAID: bring those back or replace them".into();
    }
    if !status.is_writable {
        return format!(
            "the pool is imported read-only: import it for writing, then run \
             'zpool remove {pool} {name}' and add another"
        );
    }
    match &spare.spare {
        Some(SpareUse::InUseBy(other)) => format!(
            "pool '{other}' uses it: replace the device that it stands in for there, then run \
             'zpool remove {pool} {name}' and add another"
        ),
        // Once for all: the device that it stands in for has to be replaced anyway.
        Some(SpareUse::InUse) => format!(
            "replace the device that it stands in for; or run 'zpool detach {pool} {name}', which \
             ends that, then 'zpool remove {pool} {name}', and add another"
        ),
        Some(SpareUse::Available) | None => {
            format!("run 'zpool remove {pool} {name}' and add another")
        }
    }
}

/// What an import that only reads did without.
fn of_unread(status: &PoolStatus, found: &mut Vec<Finding>) {
    for table in &status.unread {
        let what = format!("its metadata is damaged: {table}");
        let advice = "files can be read: copy them elsewhere, and create the pool again".to_owned();
        found.push(finding(Severity::Danger, "", what, advice));
    }
}

fn of_scans(status: &PoolStatus, limits: Limits, facts: &Facts, found: &mut Vec<Finding>) {
    let pool = shell_word(&status.name);
    let scrub = format!("run 'zpool scrub {pool}'");
    let is_due =
        |since: u64| facts.now.saturating_sub(since) > limits.scrub_days.saturating_mul(DAY);
    // A pool that is younger than the interval is not late.
    let may_be_late = facts.created.is_none_or(is_due);
    let Some(scan) = &status.scan else {
        if !may_be_late {
            return;
        }
        let what = "it was never scrubbed".to_owned();
        found.push(finding(Severity::Attention, "", what, scrub));
        return;
    };
    let running = scan.state == RunState::Running;
    if running && scan.kind == ScanKind::Resilver {
        let what = "a resilver is running: not all copies are whole before it ends".to_owned();
        let advice = format!("take no device away; 'zpool wait -t resilver {pool}' waits for it");
        found.push(finding(Severity::Attention, "", what, advice));
        return;
    }
    if running && scan.pause_time > 0 {
        let what = "its scrub is paused".to_owned();
        found.push(finding(Severity::Attention, "", what, scrub));
        return;
    }
    if running {
        let what = "a scrub is running".to_owned();
        found.push(finding(Severity::Note, "", what, String::new()));
        return;
    }
    if scan.errors > 0 {
        let what = format!("the last scan left {} errors unrepaired", scan.errors);
        let advice = format!("'zpool status -v {pool}' lists them");
        found.push(finding(Severity::Danger, "", what, advice));
    }
    let was_scrub = scan.kind == ScanKind::Scrub && scan.state == RunState::Finished;
    if !was_scrub && may_be_late {
        let what = "its last scrub is not on record: another scan came after it".to_owned();
        found.push(finding(Severity::Attention, "", what, scrub));
    } else if was_scrub && is_due(scan.end_time) {
        let age = facts.now.saturating_sub(scan.end_time);
        let what = format!("its last scrub ended {} ago", duration(age));
        found.push(finding(Severity::Attention, "", what, scrub));
    }
}

fn of_space(status: &PoolStatus, capacity: Option<u64>, limits: Limits, found: &mut Vec<Finding>) {
    if let Some(percent) = capacity.filter(|percent| *percent >= limits.full_percent) {
        let what = format!("it is {percent} % full: {}", consequence(percent));
        let pool = shell_word(&status.name);
        let advice = format!("'cenote space {pool}' says what would free space; or add devices");
        found.push(finding(Severity::Attention, "", what, advice));
    }
    if let Some(CheckpointState::Exists { space, .. }) = status.checkpoint {
        let what = format!("its checkpoint keeps {} from being freed", nicebytes(space));
        let advice = format!(
            "'zpool checkpoint -d {}' discards it",
            shell_word(&status.name)
        );
        found.push(finding(Severity::Note, "", what, advice));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_control::model::{
        AllocationClass, Diagnosis, Due, Fault, Scan, VdevTree, WaitingValue,
    };

    fn leaf(id: u64, state: VdevState) -> Vdev {
        let mut vdev = Vdev::new(VdevKind::File, id, 100 + id);
        vdev.path = Some(format!("/disks/{id}"));
        vdev.state = state;
        vdev
    }

    /// Nothing is wrong with a pool whose values wait: its exit code stays.
    #[test]
    fn values_that_wait_are_notes_with_the_command_that_ends_that() {
        let mut status = pool(&[VdevState::Online; 4]);
        let value = |number: usize| WaitingValue {
            dataset: format!("tank/v {number}"),
            property: "cenote:nbd".to_owned(),
            value: "on".to_owned(),
        };
        status.waiting = (0..WAITING_MAX + 2).map(value).collect();
        let mut found = Vec::new();
        of_waiting(&status, &mut found);
        assert_eq!(found.len(), WAITING_MAX + 1);
        assert!(found.iter().all(|one| one.severity == Severity::Note));
        assert!(
            found[0]
                .what
                .starts_with("cenote:nbd=on on 'tank/v 0' came")
        );
        assert_eq!(
            found[0].advice,
            "'cenote approve \"tank/v 0\"' puts it into effect"
        );
        assert!(found[WAITING_MAX].what.starts_with("2 more values"));
    }

    #[test]
    fn a_drill_is_told_so_that_its_errors_are_not_taken_for_real() {
        let mut status = pool(&[VdevState::Online; 4]);
        let mut found = Vec::new();
        of_injected(&status, &mut found);
        assert_eq!(found, []);
        status.injected = 2;
        of_injected(&status, &mut found);
        assert_eq!(found[0].severity, Severity::Attention);
        assert!(
            found[0]
                .what
                .starts_with("2 faults are injected on purpose")
        );
        assert!(found[0].advice.contains("'zinject -c all'"));
    }

    /// A pool of one raidz2 whose leaves are in these states.
    fn pool(states: &[VdevState]) -> PoolStatus {
        let mut top = Vdev::new(VdevKind::Raidz { parity: 2 }, 0, 7);
        top.class = AllocationClass::Normal;
        let leaves = states.iter().zip(0..);
        top.children = leaves.map(|(state, id)| leaf(id, *state)).collect();
        let mut root = Vdev::new(VdevKind::Root, 0, 1);
        root.children = vec![top];
        PoolStatus {
            name: "tank".to_owned(),
            guid: 1,
            txg: 10,
            version: 5000,
            health: PoolHealth::Online,
            condition: None,
            scan: None,
            due: Due::default(),
            rebuilds: Vec::new(),
            removal: None,
            checkpoint: None,
            expand: None,
            vdevs: VdevTree {
                root,
                cache: Vec::new(),
                spares: Vec::new(),
            },
            error_count: 0,
            errors: Vec::new(),
            intent_logs: Vec::new(),
            dedup: None,
            waiting: Vec::new(),
            injected: 0,
            stores: Vec::new(),
            outsiders: Vec::new(),
            is_writable: true,
            unread: Vec::new(),
        }
    }

    fn worst(status: &PoolStatus, facts: &Facts) -> Option<Severity> {
        let found = findings(status, facts, Limits::default());
        found.iter().map(|finding| finding.severity).max()
    }

    #[test]
    fn each_lost_device_is_worse_than_the_one_before() {
        use VdevState::{CantOpen, Online};
        let facts = Facts {
            created: Some(0),
            now: DAY,
            capacity: Some(10),
        };
        let of = |states: &[VdevState]| worst(&pool(states), &facts);
        assert_eq!(of(&[Online; 4]), None);
        assert_eq!(
            of(&[CantOpen, Online, Online, Online]),
            Some(Severity::Attention)
        );
        assert_eq!(
            of(&[CantOpen, CantOpen, Online, Online]),
            Some(Severity::Danger)
        );
    }

    #[test]
    fn scrubs_are_missed_once_they_are_due() {
        let mut status = pool(&[VdevState::Online; 4]);
        let at = |days: u64| Facts {
            created: Some(0),
            now: days * DAY,
            capacity: None,
        };
        assert_eq!(worst(&status, &at(34)), None);
        assert_eq!(worst(&status, &at(36)), Some(Severity::Attention));
        status.scan = Some(Scan {
            kind: ScanKind::Scrub,
            state: RunState::Finished,
            start_time: 30 * DAY,
            end_time: 31 * DAY,
            to_examine: 1,
            examined: 1,
            skipped: 0,
            processed: 0,
            errors: 0,
            pass_examined: 1,
            pass_start: 0,
            pause_time: 0,
            paused_seconds: 0,
            pass_issued: 1,
            issued: 1,
        });
        assert_eq!(worst(&status, &at(36)), None);
        assert_eq!(worst(&status, &at(67)), Some(Severity::Attention));
    }

    /// The advice was always `zpool remove`, which refuses spares that are in use or distributed,
    /// and all of them in a pool that is only read.
    #[test]
    fn spares_are_removed_where_that_can_work() {
        let mut status = pool(&[VdevState::Online; 4]);
        let facts = Facts::default();
        let mut spare = leaf(9, VdevState::CantOpen);
        let advice = |status: &mut PoolStatus, spare: &Vdev| {
            status.vdevs.spares = vec![spare.clone()];
            let found = findings(status, &facts, Limits::default());
            let found = found
                .into_iter()
                .find(|finding| finding.device == "/disks/9");
            found.map(|finding| finding.advice).unwrap_or_default()
        };
        let remove = "run 'zpool remove tank /disks/9'";
        assert!(advice(&mut status, &spare).starts_with(remove));
        spare.spare = Some(SpareUse::Available);
        assert!(advice(&mut status, &spare).starts_with(remove));
        spare.spare = Some(SpareUse::InUse);
        assert!(advice(&mut status, &spare).contains("'zpool detach tank /disks/9', which"));
        spare.spare = Some(SpareUse::InUseBy("other".to_owned()));
        assert!(advice(&mut status, &spare).starts_with("pool 'other' uses it"));
        status.is_writable = false;
        assert!(advice(&mut status, &spare).starts_with("the pool is imported read-only"));
        spare.kind = VdevKind::DraidSpare;
        assert!(!advice(&mut status, &spare).contains("zpool remove"));
        spare.state = VdevState::Online;
        assert_eq!(advice(&mut status, &spare), "");
    }

    /// Health advised to put a file back that was in its place, on a read-only file system.
    #[test]
    fn a_device_that_takes_no_writes_is_there() {
        use VdevState::{CantOpen, Online};
        let mut status = pool(&[Online, CantOpen, Online, Online]);
        let away = &status.vdevs.root.children[0].children[1];
        let of_device = |status: &PoolStatus| {
            let found = findings(status, &Facts::default(), Limits::default());
            let mut found = found.into_iter().filter(|found| found.device == "/disks/1");
            found.next().expect("a finding")
        };
        assert!(of_device(&status).what.starts_with("cannot be opened"));
        let reason = "Read-only file system".to_owned();
        status.outsiders.push(Diagnosis {
            vdev: "mirror-0/1".to_owned(),
            guid: away.guid,
            last_path: None,
            found_path: away.path.clone(),
            fault: Fault::NotWritable { reason },
        });
        let found = of_device(&status);
        let what = "cannot be written to: Read-only file system; ";
        assert!(found.what.starts_with(what), "{}", found.what);
        let advice = "'zpool online tank /disks/1'";
        let is_right =
            found.advice.contains(advice) && found.advice.starts_with("make the file writable");
        assert!(is_right, "{}", found.advice);
    }

    #[test]
    fn damage_errors_and_fullness_are_told() {
        let mut status = pool(&[VdevState::Online; 4]);
        let facts = Facts {
            capacity: Some(96),
            created: Some(0),
            now: DAY,
        };
        let found = findings(&status, &facts, Limits::default());
        assert!(found[0].what.contains("96 % full"));
        status.vdevs.root.children[0].children[1]
            .counters
            .checksum_errors = 3;
        let found = findings(&status, &facts, Limits::default());
        assert_eq!(found[0].device, "/disks/1");
        status.error_count = 2;
        assert_eq!(worst(&status, &facts), Some(Severity::Danger));
    }

    /// A spare that had taken over made health worse: "one more failure beside it loses data".
    #[test]
    fn a_spare_that_took_over_counts_and_a_log_is_no_data() {
        use VdevState::{Faulted, Online};
        let mut status = pool(&[Online; 4]);
        let facts = Facts::default();
        let of = |status: &PoolStatus, device: &str| {
            let found = findings(status, &facts, Limits::default());
            let found = found.into_iter().find(|finding| finding.device == device);
            found.map(|finding| (finding.severity, finding.what))
        };
        let mut spare = Vdev::new(VdevKind::Spare, 1, 50);
        spare.state = VdevState::Degraded;
        spare.children = vec![leaf(1, Faulted), leaf(8, Online)];
        status.vdevs.root.children[0].children[1] = spare;
        status.vdevs.root.children[0].kind = VdevKind::Raidz { parity: 1 };
        let (severity, what) = of(&status, "/disks/1").expect("told");
        assert_eq!(severity, Severity::Attention);
        let end = "a spare has taken over; raidz1-0 can lose 1 more device before data is lost";
        assert!(what.ends_with(end), "{what}");
        // While the spare is being resilvered it does not count.
        status.vdevs.root.children[0].children[1].children[1].is_resilvering = true;
        for device in ["/disks/1", "/disks/8"] {
            let (severity, what) = of(&status, device).expect("told");
            assert_eq!(severity, Severity::Danger, "{what}");
            assert!(what.contains("one more failure"), "{what}");
        }
        let mut status = pool(&[Online; 4]);
        let mut log = leaf(9, Online);
        log.class = AllocationClass::Log;
        status.vdevs.root.children.push(log);
        let (severity, what) = of(&status, "/disks/9").expect("told");
        assert_eq!(severity, Severity::Note);
        assert!(
            what.contains("fsync")
                && of(&status, "").is_some_and(|(_, what)| !what.contains("no redundancy")),
            "{what}"
        );
        status.vdevs.root.children[1].state = Faulted;
        let (severity, what) = of(&status, "/disks/9").expect("told");
        assert!(
            severity == Severity::Attention && what.contains("slower"),
            "{what}"
        );
        // A lost special device takes the pool along.
        status.vdevs.root.children[1].class = AllocationClass::Special;
        let (severity, _) = of(&status, "/disks/9").expect("told");
        assert_eq!(severity, Severity::Danger);
        status.vdevs.cache = vec![leaf(12, VdevState::CantOpen)];
        let (severity, what) = of(&status, "/disks/12").expect("told");
        assert!(
            severity == Severity::Attention && what.contains("no data is lost"),
            "{what}"
        );
        status.vdevs.cache[0].state = VdevState::Offline;
        let (_, what) = of(&status, "/disks/12").expect("told");
        assert!(what.contains("was taken offline"), "{what}");
    }
}
