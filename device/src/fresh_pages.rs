//! Memory that is got ready before it is asked for.
//!
//! Pages that the program never had have to be cleared, and in a virtual machine the host may have
//! to find each of them first: there a gigabyte takes three seconds, while a disk gives or takes
//! two in one. Whoever waits for a device should not wait for that as well. So a thread gets some
//! chunks ready, in time that nobody else wants.
//!
//! While it cannot keep up, fresh pages are [*late*](are_late), and those who only keep what could
//! be had again (caches) should give back as much as they take: what was used before costs
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

/// Whether fresh memory is slow to get and little is ready: who can use its own again had better.
pub fn are_late() -> bool {
    // How fast memory comes is nothing that a simulated machine may depend on.
    LATE.load(Ordering::Relaxed) && !rt::is_simulated()
}

/// Notes how long it took to get a chunk.
pub(crate) fn note_made(time: Duration) {
    SLOW.store(time > SLOW_FROM, Ordering::Relaxed);
}

/// Has chunks got ready, of which `few_left` are: `fill` adds one, until there are enough.
pub(crate) fn get_ready(few_left: bool, fill: fn() -> bool) {
    let waker = FILLER.get_or_init(|| {
        let (sender, receiver) = sync_channel(1);
        // Without a thread everybody gets what he needs himself.
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
