//! Memory that is allocated ahead of need.
//!
//! The kernel has to clear pages that the program never had, and in a virtual machine the host may
//! have to find each of them first. There a gigabyte takes three seconds, while a disk reads or
//! writes two in one second. A caller that waits for a device should not wait for that as well. So
//! a thread allocates some chunks ahead, at low priority.
//!
//! While it cannot keep up, fresh pages are [*late*](are_late). Caches, whose contents could be
//! read again, should then free as much as they take, since memory that was used before costs
//! nothing. They grow as fast as memory comes.

use cenote_base::rt;
use cenote_base::rt::process::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A chunk of 2 MiB that takes longer is slow to get: less than 4 GB/s.
const SLOW_FROM: Duration = Duration::from_micros(500);
/// The least of all priorities.
const PRIORITY: i32 = 19;

/// Whether the last chunk was slow to get.
static SLOW: AtomicBool = AtomicBool::new(false);
static LATE: AtomicBool = AtomicBool::new(false);
/// Wakes the thread.
static FILLER: OnceLock<Option<SyncSender<()>>> = OnceLock::new();

/// Whether fresh memory is slow to get and few chunks are ready: callers should reuse their own.
pub fn are_late() -> bool {
    // The speed of memory must not influence a simulated machine.
    LATE.load(Ordering::Relaxed) && !rt::is_simulated()
}

/// Notes how long it took to get a chunk.
pub(crate) fn note_made(time: Duration) {
    SLOW.store(time > SLOW_FROM, Ordering::Relaxed);
}

/// Makes the thread call `fill`, which adds a chunk, until there are enough. `few_left` says that
/// few chunks are ready.
pub(crate) fn get_ready(few_left: bool, fill: fn() -> bool) {
    let waker = FILLER.get_or_init(|| {
        let (sender, receiver) = sync_channel(1);
        // Without a thread each caller gets its chunks itself.
        let started = rt::process::spawn("page_fill", move || run(&receiver, fill));
        started.ok().map(|_| sender)
    });
    let Some(waker) = waker else {
        return;
    };
    if few_left && SLOW.load(Ordering::Relaxed) {
        LATE.store(true, Ordering::Relaxed);
    }
    // It is awake if the channel is full.
    let _ = waker.try_send(());
}

fn run(woken: &Receiver<()>, fill: fn() -> bool) {
    // With another priority it does its work, too.
    let _ = rustix::process::setpriority_process(None, PRIORITY);
    while woken.recv().is_ok() {
        while fill() {}
        LATE.store(false, Ordering::Relaxed);
    }
}
