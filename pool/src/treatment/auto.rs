//! Autotrim: freed space is discarded on the devices once it may be reused.
//!
//! Freed ranges wait two groups as always. The ranges that became free are then collected here. A
//! job holds those that are still free, and all leaves of the vdev discard them. No caller waits
//! for that. Ranges that do not fit the list are left to `zpool trim`.

use crate::sync::Syncer;
use cenote_base::rt::job::{Control, Job, Next};
use cenote_base::rt::{Mutex, Receiver, SyncSender, ranks, sync_channel};
use cenote_base::{VdevId, settings};
use cenote_vdev::FreeSpaceAction;
use std::ops::Range;
use std::sync::{Arc, Weak};

/// Groups of freed ranges that may wait.
const GROUPS_MAX: usize = 64;

/// Space that became free in one group.
pub(crate) type FreedRanges = Vec<(VdevId, Range<u64>)>;

/// The job, if the property is on.
#[derive(Debug, Default)]
pub(super) struct Autotrim {
    job: Mutex<Job, ranks::Autotrim>,
}

impl Autotrim {
    /// Starts or stops it. After it has stopped, no device gets any more discards: another system
    /// may use the pool then.
    pub fn set(&self, syncer: &Arc<Syncer>, is_on: bool) {
        let job = self.job.lock();
        if !is_on {
            // It waits for the sender.
            syncer.space.report_freed(None);
            job.stop();
        } else if !job.is_at_work() {
            let (sender, receiver) = sync_channel(GROUPS_MAX);
            let pool = Arc::downgrade(syncer);
            let work = move |control: &Control| step(&pool, &receiver, control);
            // Without a thread nothing is trimmed, which does no harm.
            if job.start("vdev_autotrim", work).is_ok() {
                syncer.space.report_freed(Some(sender));
            }
        }
    }
}

/// Trims what became free in one group.
fn step(syncer: &Weak<Syncer>, receiver: &Receiver<FreedRanges>, control: &Control) -> Next {
    let Ok(freed) = receiver.recv() else {
        return Next::Done;
    };
    for (vdev, range) in freed {
        let Some(syncer) = syncer.upgrade() else {
            return Next::Done;
        };
        trim(&syncer, vdev, &range, control);
    }
    Next::Now
}

/// Trims what is still free of a range.
fn trim(syncer: &Syncer, vdev: VdevId, range: &Range<u64>, control: &Control) {
    if range.end - range.start < settings::TRIM_EXTENT_MIN.get() {
        return;
    }
    let Some(index) = syncer.space.metaslab_of(vdev, range) else {
        return;
    };
    let mut cursor = range.start;
    while cursor < range.end && !control.is_interrupted() {
        let length = (range.end - cursor).min(settings::TRIM_EXTENT_MAX.get());
        let held = syncer.space.hold_range(vdev, index, cursor, length);
        let Some(held) = held.filter(|held| held.range.start < range.end) else {
            return;
        };
        cursor = held.range.end;
        // If a device fails here, other work reports it.
        let _ = syncer.vdevs.shape().treat_free_space(
            vdev,
            held.range.clone(),
            FreeSpaceAction::Discard,
        );
    }
}

impl crate::allocation::Space {
    /// Starts or stops reporting space that became free.
    pub fn report_freed(&self, to: Option<SyncSender<FreedRanges>>) {
        let mut reporter = self.freed_to.lock();
        *reporter = to;
    }
}
