//! Changes without a command: devices that fail and return, scans that begin and end.
//!
//! They are found by comparing the present state with that of the last check, once a second. So no
//! cause is missed, and lower layers need not report changes. A change that is undone between two
//! checks is not noticed, except for scans: these leave their times behind.

use super::activity::scan_of;
use crate::devices::tree::{all_vdevs, vdev_tree};
use crate::events::Events;
use crate::registry::imported::Imported;
use cenote_base::rt::{Mutex, ranks};
use cenote_control::model::{RunState, Scan, ScanKind, Vdev, VdevAux, VdevState};
use std::collections::HashMap;
use std::sync::Arc;

/// What was last seen of each pool, by the guid of its import.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    seen: Mutex<HashMap<u64, Seen>, ranks::PoolChanges>,
}

/// What was last seen of one pool.
#[derive(Debug, Default)]
struct Seen {
    states: HashMap<u64, VdevState>,
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
