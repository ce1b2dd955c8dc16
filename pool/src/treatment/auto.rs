//! Autotrim: devices are told of space once it may be used again.
//!
//! Freed ranges wait their two groups like always. What became free then is collected here, and
//! a thread holds it, as far as it is still free, and has all leaves of the vdev discard it.
//! Nobody waits for that, and what does not fit the list is left to `zpool trim`.

use crate::sync::Syncer;
use cenote_base::rt::{self, JoinHandle, Mutex, ranks};
use cenote_base::rt::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use cenote_base::{VdevId, settings};
use cenote_vdev::FreeSpaceAction;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Groups of freed ranges that may wait.
const GROUPS_MAX: usize = 64;
/// How often a thread without work looks whether its pool is still there.
const IDLE: Duration = Duration::from_secs(1);

/// Space that became free in one group.
pub(crate) type FreedRanges = Vec<(VdevId, Range<u64>)>;

/// The thread, if the property is on.
#[derive(Debug, Default)]
pub(super) struct Autotrim {
    thread: Mutex<Option<JoinHandle<()>>, ranks::Autotrim>,
    /// Nothing more is to be trimmed, not even what waits.
    is_stopped: Arc<AtomicBool>,
}

impl Autotrim {
    /// Begins or ends it.
    pub fn set(&self, syncer: &Arc<Syncer>, is_on: bool) {
        let mut thread = self.thread.lock();
        if !is_on {
            syncer.space.report_freed(None);
        } else if thread.as_ref().is_none_or(JoinHandle::is_finished) {
            let (sender, receiver) = sync_channel(GROUPS_MAX);
            let syncer_of_thread = Arc::downgrade(syncer);
            let is_stopped = Arc::clone(&self.is_stopped);
            is_stopped.store(false, Ordering::Release);
            let started = rt::spawn("vdev_autotrim", move || {
                run(&syncer_of_thread, &receiver, &is_stopped)
            });
            // Without a thread nothing is trimmed, which harms nobody.
            if let Ok(started) = started {
                *thread = Some(started);
                syncer.space.report_freed(Some(sender));
            }
        }
    }

    /// Ends it, and returns once no device is told anything more: another system may use the
    /// pool then.
    pub fn stop(&self, syncer: &Syncer) {
        self.is_stopped.store(true, Ordering::Release);
        syncer.space.report_freed(None);
        let mut thread = self.thread.lock();
        if let Some(thread) = thread.take() {
            // A thread that failed trims nothing either.
            let _ = thread.join();
        }
    }
}

fn run(syncer: &Weak<Syncer>, receiver: &Receiver<FreedRanges>, is_stopped: &AtomicBool) {
    loop {
        let freed = match receiver.recv_timeout(IDLE) {
            Ok(freed) => freed,
            Err(RecvTimeoutError::Timeout) if syncer.strong_count() > 0 => continue,
            Err(_) => return,
        };
        for (vdev, range) in freed {
            let Some(syncer) = syncer.upgrade() else {
                return;
            };
            trim(&syncer, vdev, &range, is_stopped);
        }
    }
}

/// Trims what is still free of a range.
fn trim(syncer: &Syncer, vdev: VdevId, range: &Range<u64>, is_stopped: &AtomicBool) {
    if range.end - range.start < settings::TRIM_EXTENT_MIN.get() {
        return;
    }
    let Some(index) = syncer.space.metaslab_of(vdev, range) else {
        return;
    };
    let mut cursor = range.start;
    while cursor < range.end && !is_stopped.load(Ordering::Acquire) {
        let length = (range.end - cursor).min(settings::TRIM_EXTENT_MAX.get());
        let held = syncer.space.hold_range(vdev, index, cursor, length);
        let Some(held) = held.filter(|held| held.range.start < range.end) else {
            return;
        };
        cursor = held.range.end;
        // A device that fails here fails elsewhere too, where somebody listens.
        let _ = syncer.vdevs.shape().treat_free_space(
            vdev,
            held.range.clone(),
            FreeSpaceAction::Discard,
        );
    }
}

impl crate::allocation::Space {
    /// From now on tells of space that became free, or no more.
    pub fn report_freed(&self, to: Option<SyncSender<FreedRanges>>) {
        let mut reporter = self.freed_to.lock();
        *reporter = to;
    }
}
