//! What is a finding: a pure function of what the daemon says about a pool.

use cenote_control::model::{
    CheckpointState, DataErrorPlace, PoolHealth, PoolStatus, RunState, ScanKind, SpareUse, Vdev,
    VdevAux, VdevKind, VdevNaming, VdevState, shell_word,
};

use crate::limits::{DAY, Limits, consequence};
use crate::numbers::{duration, nicebytes};
use crate::{Finding, Severity, stores};

/// Damaged files that are named.
const FILES_MAX: usize = 10;

/// What is known of a pool beside its status.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// Per cent of its space that is in use.
    pub capacity: Option<u64>,
    /// When it was made, in seconds.
    pub created: Option<u64>,
    /// The time, in seconds.
    pub now: u64,
}

fn finding(severity: Severity, device: &str, what: String, advice: String) -> Finding {
    Finding {
        severity,
        device: device.to_owned(),
        what,
        advice,
    }
}

/// Everything about a pool that an administrator should know.
pub fn findings(status: &PoolStatus, facts: &Facts, limits: Limits) -> Vec<Finding> {
    let mut found = Vec::new();
    of_pool(status, &mut found);
    of_files(status, &mut found);
    let context = Place {
        pool: &status.name,
        spare_failures: None,
    };
    for top in &status.vdevs.root.children {
        of_vdev(top, &context, &mut found);
    }
    of_redundancy(status, &mut found);
    of_spares(status, &mut found);
    of_unread(status, &mut found);
    of_scans(status, limits, facts, &mut found);
    of_space(status, facts.capacity, limits, &mut found);
    found.extend(stores::findings(&status.name, &status.stores));
    found
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

/// Where a vdev stands.
struct Place<'a> {
    pool: &'a str,
    /// How many more of its siblings may fail; none where its parent is not redundant.
    spare_failures: Option<u64>,
}

/// How many children a vdev can do without.
fn tolerance(vdev: &Vdev) -> Option<u64> {
    match vdev.kind {
        VdevKind::Mirror | VdevKind::Spare | VdevKind::Replacing => {
            Some((vdev.children.len() as u64).saturating_sub(1))
        }
        VdevKind::Raidz { parity } | VdevKind::Draid { parity, .. } => Some(parity),
        _ => None,
    }
}

/// How many more children a vdev can lose before data is lost; `None` where it has no redundancy.
fn failures_left(vdev: &Vdev) -> Option<u64> {
    let lost = vdev.children.iter().filter(|child| !serves(child)).count() as u64;
    tolerance(vdev).map(|tolerated| tolerated.saturating_sub(lost))
}

/// Whether a vdev gives what is asked of it.
fn serves(vdev: &Vdev) -> bool {
    matches!(vdev.state, VdevState::Online | VdevState::Degraded) && !vdev.resilver_deferred
}

fn of_vdev(vdev: &Vdev, place: &Place<'_>, found: &mut Vec<Finding>) {
    if vdev.children.is_empty() {
        of_leaf(vdev, place, found);
        return;
    }
    let below = Place {
        pool: place.pool,
        spare_failures: failures_left(vdev),
    };
    // Trees are at most four deep by their decoder.
    for child in &vdev.children {
        of_vdev(child, &below, found);
    }
}

fn of_leaf(vdev: &Vdev, place: &Place<'_>, found: &mut Vec<Finding>) {
    if matches!(vdev.kind, VdevKind::Hole | VdevKind::Indirect) {
        return;
    }
    let name = vdev.name(VdevNaming::default());
    let shown = match (&vdev.path, vdev.not_present) {
        (Some(path), true) => format!("{name} (was {path})"),
        _ => name.clone(),
    };
    let severity = match place.spare_failures {
        None | Some(0) => Severity::Danger,
        Some(_) => Severity::Attention,
    };
    let consequence = match place.spare_failures {
        None => "; there is no redundancy to make up for it",
        Some(0) => "; one more failure beside it loses data",
        Some(_) => "",
    };
    let (pool, word) = (shell_word(place.pool), shell_word(&name));
    if let Some((what, advice)) = state_of(vdev, &pool, &word) {
        let what = format!("{what}{consequence}");
        found.push(finding(severity, &shown, what, advice));
    }
    let counters = &vdev.counters;
    let errors = counters.read_errors + counters.write_errors + counters.checksum_errors;
    if errors > 0 {
        let what = format!(
            "{} read, {} write and {} checksum errors; {} were repaired",
            counters.read_errors,
            counters.write_errors,
            counters.checksum_errors,
            nicebytes(counters.self_healed + counters.scan_repaired)
        );
        let advice = format!(
            "check its cables and SMART values; 'zpool scrub {pool}' finds what else is wrong, \
             'zpool replace {pool} {word} NEW' exchanges it, \
             'zpool clear {pool} {word}' counts anew"
        );
        found.push(finding(Severity::Attention, &shown, what, advice));
    }
    if counters.slow_ios > 0 {
        let what = format!("{} requests took very long", counters.slow_ios);
        let advice = "a disk that grows slow often fails next: check its SMART values".to_owned();
        found.push(finding(Severity::Attention, &shown, what, advice));
    }
}

/// What is wrong with a leaf's state.
fn state_of(vdev: &Vdev, pool: &str, name: &str) -> Option<(&'static str, String)> {
    let replace = format!("'zpool replace {pool} {name} NEW'");
    Some(match vdev.state {
        VdevState::Online | VdevState::Unknown if vdev.resilver_deferred => (
            "misses writes and waits for a resilver",
            format!("run 'zpool resilver {pool}', and do not take the other devices away"),
        ),
        VdevState::Online | VdevState::Unknown => return None,
        VdevState::Degraded => ("has met many errors", format!("exchange it: {replace}")),
        VdevState::Faulted => (
            "is out of service because of errors",
            format!("exchange it: {replace}"),
        ),
        VdevState::Offline => (
            "was taken offline",
            format!("run 'zpool online {pool} {name}'"),
        ),
        VdevState::Removed | VdevState::Closed => (
            "was removed",
            format!("plug it in and run 'zpool online {pool} {name}', or exchange it: {replace}"),
        ),
        VdevState::CantOpen => match vdev.aux {
            VdevAux::BadLabel | VdevAux::CorruptData | VdevAux::TooSmall => (
                "does not hold what it should",
                format!("if its contents were lost, run 'zpool replace {pool} {name}'"),
            ),
            _ => (
                "cannot be opened",
                format!("bring it back and run 'zpool online {pool} {name}', or {replace}"),
            ),
        },
    })
}

/// Data without a second copy is worth a word, but it may be meant.
fn of_redundancy(status: &PoolStatus, found: &mut Vec<Finding>) {
    let mut bare = Vec::new();
    for top in &status.vdevs.root.children {
        let holds = !matches!(top.kind, VdevKind::Hole | VdevKind::Indirect);
        if holds && tolerance(top).is_none() {
            bare.push(top.name(VdevNaming::default()));
        }
    }
    if bare.is_empty() {
        return;
    }
    let pool = shell_word(&status.name);
    let what = format!(
        "no redundancy: {}; damage is found, not repaired",
        bare.join(", ")
    );
    let first = shell_word(&bare[0]);
    let advice = format!("'zpool attach {pool} {first} NEW' makes a mirror of it");
    found.push(finding(Severity::Note, "", what, advice));
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
        let advice = "files can be read: copy them elsewhere, and make the pool anew".to_owned();
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
    use cenote_control::model::{AllocationClass, Scan, VdevTree};

    fn leaf(id: u64, state: VdevState) -> Vdev {
        let mut vdev = Vdev::new(VdevKind::File, id, 100 + id);
        vdev.path = Some(format!("/disks/{id}"));
        vdev.state = state;
        vdev
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
}
