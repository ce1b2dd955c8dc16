//! Changes without a command: devices that fail and return, scans that begin and end.
//!
//! They are found by comparing the present state with that of the last check, once a second. So no
//! cause is missed, and lower layers need not report changes. A change that is undone between two
//! checks is not noticed, except for scans: these leave their times behind.

use super::activity::scan_of;
use crate::devices::tree::{all_vdevs, vdev_tree};
use crate::events::Events;
use crate::registry::imported::Imported;
use cenote_base::Guid;
use cenote_base::rt::{Mutex, ranks};
use cenote_base::settings::{self, Setting};
use cenote_control::model::{RunState, Scan, ScanKind, Vdev, VdevAux, VdevState};
use cenote_dmu::GroupState;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The event for what hangs.
const DEADMAN: &str = "ereport.fs.zfs.deadman";

/// A request that is under way for so long may be what a group waits for that takes too long.
const LATE_WITH_GROUP: Duration = Duration::from_secs(1);

/// What was last seen of each pool, by the guid of its import.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    seen: Mutex<HashMap<u64, Seen>, ranks::PoolChanges>,
}

/// What was last seen of one pool.
#[derive(Debug, Default)]
struct Seen {
    states: HashMap<u64, VdevState>,
    /// Of each device: its writes that failed, its slow requests, and those that hung.
    troubles: HashMap<u64, [u64; 3]>,
    /// When it was last checked for what hangs.
    checked: Duration,
    scan: Option<(u64, RunState)>,
}

/// The number of a state in events (format/1c: `vdev_state_t`).
fn state_number(state: VdevState) -> u64 {
    match state {
        VdevState::Unknown => 0,
        VdevState::Closed => 1,
        VdevState::Offline => 2,
        VdevState::Removed => 3,
        VdevState::CantOpen => 4,
        VdevState::Faulted => 5,
        VdevState::Degraded => 6,
        VdevState::Online => 7,
    }
}

impl Changes {
    /// Posts what changed in these pools since the last look.
    pub fn look(&self, events: &Events, pools: &[Arc<Imported>]) {
        let mut seen = self.seen.lock();
        seen.retain(|guid, _| pools.iter().any(|pool| pool.load_guid == *guid));
        for imported in pools {
            let is_new = !seen.contains_key(&imported.load_guid);
            let entry = seen.entry(imported.load_guid).or_default();
            devices(events, imported, entry, is_new);
            let hanging = hanging(imported, entry);
            troubles(events, imported, entry, &hanging);
            let scan = scan_of(&imported.pool);
            scans(events, imported, entry, scan.as_ref(), is_new);
        }
    }
}

fn devices(events: &Events, imported: &Imported, seen: &mut Seen, is_new: bool) {
    let tree = vdev_tree(&imported.pool);
    for vdev in all_vdevs(&tree) {
        let before = seen.states.insert(vdev.guid, vdev.state);
        let changed = before.is_some_and(|before| before != vdev.state);
        let is_missing = is_new && vdev.state == VdevState::CantOpen && vdev.kind.is_leaf();
        if is_missing {
            let class = "ereport.fs.zfs.vdev.open_failed";
            let _ = events.post_with(class, &imported.pool, about(vdev));
        }
        if let Some(before) = before.filter(|_| changed) {
            log_strayed(imported.name(), vdev);
            let mut more = about(vdev);
            let last = format!("{:#x}", state_number(before));
            more.push(("vdev_laststate".to_owned(), last));
            let class = "resource.fs.zfs.statechange";
            let _ = events.post_with(class, &imported.pool, more);
        }
    }
}

/// The devices that hang: a request of theirs takes too long, or a group does that waits for them.
fn hanging(imported: &Imported, seen: &mut Seen) -> Vec<Guid> {
    let duration = |setting: &Setting| Duration::from_millis(setting.get());
    let now = imported.pool.env().monotonic();
    let is_due = now.saturating_sub(seen.checked) >= duration(&settings::DEADMAN_CHECKTIME_MS);
    if !is_due || settings::DEADMAN_ENABLED.get() == 0 {
        return Vec::new();
    }
    seen.checked = now;
    let groups = imported.pool.gate().map(|gate| gate.groups());
    let mut groups = groups.unwrap_or_default().into_iter();
    let is_late = groups.any(|group| {
        let begun = group.opened + group.open + group.quiesce;
        let took = now.saturating_sub(begun);
        group.state == GroupState::Syncing && took > duration(&settings::DEADMAN_SYNCTIME_MS)
    });
    let at_least = match is_late {
        true => LATE_WITH_GROUP,
        false => duration(&settings::DEADMAN_ZIOTIME_MS),
    };
    imported.pool.vdevs().waiting_for(at_least)
}

/// Posts writes that failed, requests that were slow, and what hangs. Reads that failed are
/// reported as they are met, with their blocks.
fn troubles(events: &Events, imported: &Imported, seen: &mut Seen, hanging: &[Guid]) {
    let [failed, slow, hung] = [
        &settings::CHECKSUM_EVENTS,
        &settings::SLOW_IO_EVENTS,
        &settings::DEADMAN_EVENTS,
    ];
    let kinds = [
        ("ereport.fs.zfs.io", failed.get()),
        ("ereport.fs.zfs.delay", slow.get()),
        (DEADMAN, hung.get() * settings::DEADMAN_ENABLED.get()),
    ];
    let status = imported.pool.vdevs().status();
    let mut stack = vec![&status];
    while let Some(vdev) = stack.pop() {
        stack.extend(&vdev.children);
        if !vdev.kind.is_device() {
            continue;
        }
        let [_, writes, _, slow] = vdev.figures.errors_ever;
        let now = [writes, slow, vdev.figures.hung_operations];
        let before = seen.troubles.insert(vdev.guid.0, now).unwrap_or_default();
        for (kind, (class, limit)) in kinds.iter().enumerate() {
            let new = now[kind].saturating_sub(before[kind]).min(*limit);
            let is_hanging = *class == DEADMAN && hanging.contains(&vdev.guid);
            for _ in 0..new + u64::from(is_hanging) {
                let mut more = vec![("vdev_guid".to_owned(), format!("{:#x}", vdev.guid.0))];
                if let Some(path) = &vdev.path {
                    let path = format!("\"{}\"", path.display());
                    more.push(("vdev_path".to_owned(), path));
                }
                let _ = events.post_with(class, &imported.pool, more);
            }
        }
    }
}

/// Says in the log that the name of a device leads to something else.
fn log_strayed(pool: &str, vdev: &Vdev) {
    let what = match vdev.aux {
        VdevAux::Replaced => "replaced by another file or device",
        VdevAux::Deleted => "deleted",
        _ => return,
    };
    let name = vdev.path.clone().unwrap_or_else(|| vdev.guid.to_string());
    log::warn!(
        "pool '{pool}': {name} was {what} while in use. Nothing is written to the old one any \
         more. To use what is there now, run 'zpool online {pool} {name}'"
    );
}

fn about(vdev: &Vdev) -> Vec<(String, String)> {
    let mut more = vec![
        ("vdev_guid".to_owned(), format!("{:#x}", vdev.guid)),
        (
            "vdev_state".to_owned(),
            format!("{:#x}", state_number(vdev.state)),
        ),
        ("vdev_type".to_owned(), format!("\"{}\"", vdev.kind.word())),
    ];
    if let Some(path) = &vdev.path {
        more.push(("vdev_path".to_owned(), format!("\"{path}\"")));
    }
    more
}

fn scans(events: &Events, imported: &Imported, seen: &mut Seen, scan: Option<&Scan>, is_new: bool) {
    let now = scan.map(|scan| (scan.start_time, scan.state));
    let before = std::mem::replace(&mut seen.scan, now);
    let Some(scan) = scan.filter(|_| !is_new && now != before) else {
        return;
    };
    let name = match scan.kind {
        ScanKind::Scrub => "scrub",
        ScanKind::Resilver => "resilver",
        ScanKind::ErrorScrub => "errorscrub",
    };
    let post = |what: &str| {
        let class = format!("sysevent.fs.zfs.{name}_{what}");
        let errors = ("scan_errors".to_owned(), format!("{:#x}", scan.errors));
        let _ = events.post_with(&class, &imported.pool, vec![errors]);
    };
    if before.is_none_or(|(started, _)| started != scan.start_time) {
        post("start");
    }
    match scan.state {
        RunState::Running => {}
        RunState::Finished => post("finish"),
        RunState::Canceled => post("abort"),
    }
}
