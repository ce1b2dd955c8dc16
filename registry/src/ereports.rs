//! Faults that reads meet, as events: `ereport.fs.zfs.checksum`, `.io` and `.data`.
//!
//! A failing disk can give thousands of wrong blocks in a second, and noting one delays readers. So
//! few are noted for a pool in a second, as in OpenZFS (`zfs_checksum_events_per_second`); the rest
//! is only counted by the vdev.

use crate::events::Events;
use crate::imported::Imported;
use cenote_base::rt::{Mutex, ranks};
use cenote_base::{Env, settings};
use cenote_io::{BlockFault, FaultClass, FaultSink};
use cenote_vdev::VdevStatus;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Notes the faults of one pool.
#[derive(Debug)]
struct Ereports {
    pool: Weak<Imported>,
    events: Arc<Events>,
    env: Arc<dyn Env>,
    rate: Mutex<Rate, ranks::Ereports>,
}

/// What was noted in the second that began at `since`.
#[derive(Debug, Default)]
struct Rate {
    since: Duration,
    noted: u32,
}

impl Rate {
    /// Whether one more may be noted.
    fn allows(&mut self, now: Duration) -> bool {
        if now.saturating_sub(self.since) >= Duration::from_secs(1) {
            *self = Rate {
                since: now,
                noted: 0,
            };
        }
        self.noted = self.noted.saturating_add(1);
        u64::from(self.noted) <= settings::CHECKSUM_EVENTS.get()
    }
}

impl FaultSink for Ereports {
    fn fault(&self, fault: &BlockFault) {
        let Some(imported) = self.pool.upgrade() else {
            return;
        };
        let now = self.env.monotonic();
        let mut rate = self.rate.lock();
        if !rate.allows(now) {
            return;
        }
        drop(rate);
        let class = match fault.class {
            FaultClass::Checksum => "ereport.fs.zfs.checksum",
            FaultClass::Io => "ereport.fs.zfs.io",
            FaultClass::Data => "ereport.fs.zfs.data",
            FaultClass::Authentication => "ereport.fs.zfs.authentication",
        };
        let details = details(&imported, fault);
        let _ = self.events.post_with(class, &imported.pool, details);
    }
}

/// The supported fields of OpenZFS's reports, as `zpool events -v` prints them.
fn details(imported: &Imported, fault: &BlockFault) -> Vec<(String, String)> {
    let mut more: Vec<(&str, String)> = Vec::new();
    if let Some(leaf) = fault.leaf {
        more.push(("vdev_guid", format!("{:#x}", leaf.0)));
        let status = imported.pool.vdevs().status();
        if let Some(vdev) = find(&status, leaf.0) {
            more.push(("vdev_type", format!("\"{}\"", vdev.kind.name())));
            if let Some(path) = &vdev.path {
                more.push(("vdev_path", format!("\"{}\"", path.display())));
            }
        }
    }
    let place = fault.bookmark;
    more.push(("zio_size", format!("{:#x}", fault.size)));
    more.push(("zio_offset", format!("{:#x}", fault.dva.offset())));
    more.push(("zio_objset", format!("{:#x}", place.objset.0)));
    more.push(("zio_object", format!("{:#x}", place.object.0)));
    more.push(("zio_level", format!("{:#x}", place.level.0)));
    more.push(("zio_blkid", format!("{:#x}", place.block.0)));
    let owned = |(name, value): (&str, String)| (name.to_owned(), value);
    more.into_iter().map(owned).collect()
}

/// The vdev with this guid; trees are at most 20 deep by their decoder.
fn find(status: &VdevStatus, guid: u64) -> Option<&VdevStatus> {
    if status.guid.0 == guid {
        return Some(status);
    }
    status.children.iter().find_map(|child| find(child, guid))
}

/// Has the faults of a pool noted from now on.
pub fn report_faults(events: &Arc<Events>, env: &Arc<dyn Env>, imported: &Arc<Imported>) {
    imported.pool.set_fault_sink(Arc::new(Ereports {
        pool: Arc::downgrade(imported),
        events: Arc::clone(events),
        env: Arc::clone(env),
        rate: Mutex::default(),
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_is_cut_short_and_the_next_second_counts_anew() {
        let mut rate = Rate::default();
        let at = Duration::from_millis;
        let noted = (0..100).filter(|_| rate.allows(at(10))).count();
        assert_eq!(noted as u64, settings::CHECKSUM_EVENTS.get());
        assert!(!rate.allows(at(999)));
        assert!(rate.allows(at(1500)));
    }
}
