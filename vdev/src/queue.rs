//! Admission of requests to a device: a queue for each leaf, with a class for each purpose.
//!
//! A device works best with a few requests at once, and answers each of many slowly. So every
//! request enters the leaf's queue in its class, and waits while its class is at its maximum. When
//! a request ends, the classes below their *least* number of active requests go first, then the
//! others, both in the order of [`IoClass`]. So no class starves, and requests that a person waits
//! for go before background work. The limits are those of OpenZFS, by the same names
//! (`zfs_vdev_sync_read_min_active` and so on).
//!
//! The queue only admits: the threads that need the requests also carry them out.

use crate::courtesy::Courtesy;
use cenote_base::Env;
use cenote_base::rt::{Condvar, Mutex, MutexGuard, ranks};
use cenote_base::settings::{self, Setting};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What a request is for, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IoClass {
    /// A caller waits for the data.
    SyncRead,
    /// A caller waits until it is written: labels, uberblocks, intent logs.
    SyncWrite,
    /// Read ahead of need.
    AsyncRead,
    /// Written in the background: transaction groups.
    AsyncWrite,
    /// Verification.
    Scrub,
    /// Discarding free space.
    Trim,
    /// Writing to all free space once.
    Initialize,
}

/// How many classes there are.
pub(crate) const CLASSES: usize = 7;

impl IoClass {
    /// All classes in order.
    pub const ALL: [Self; CLASSES] = [
        Self::SyncRead,
        Self::SyncWrite,
        Self::AsyncRead,
        Self::AsyncWrite,
        Self::Scrub,
        Self::Trim,
        Self::Initialize,
    ];

    /// The word in the names of its two settings: `zfs_vdev_WORD_min_active`.
    pub fn name(self) -> &'static str {
        match self {
            Self::SyncRead => "sync_read",
            Self::SyncWrite => "sync_write",
            Self::AsyncRead => "async_read",
            Self::AsyncWrite => "async_write",
            Self::Scrub => "scrub",
            Self::Trim => "trim",
            Self::Initialize => "initializing",
        }
    }
}

/// Times as many requests go at once to a device that answers many as fast as one, such as a store
/// of objects: the settings are made for disks.
const DEEP_FACTOR: u32 = 8;

/// Limits of one class on one leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ClassLimits {
    /// Requests that go before other classes' surplus.
    min_active: u32,
    /// Requests at once at most.
    max_active: u32,
}

/// The limits of a leaf's queue: at the moment, for they are settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct QueueLimits {
    classes: [ClassLimits; CLASSES],
    /// Requests of all classes at once at most (`zfs_vdev_max_active`).
    max_active: u32,
}

/// The settings of each class, in the classes' order.
static CLASS_SETTINGS: [[&Setting; 2]; CLASSES] = [
    [
        &settings::SYNC_READ_MIN_ACTIVE,
        &settings::SYNC_READ_MAX_ACTIVE,
    ],
    [
        &settings::SYNC_WRITE_MIN_ACTIVE,
        &settings::SYNC_WRITE_MAX_ACTIVE,
    ],
    [
        &settings::ASYNC_READ_MIN_ACTIVE,
        &settings::ASYNC_READ_MAX_ACTIVE,
    ],
    [
        &settings::ASYNC_WRITE_MIN_ACTIVE,
        &settings::ASYNC_WRITE_MAX_ACTIVE,
    ],
    [&settings::SCRUB_MIN_ACTIVE, &settings::SCRUB_MAX_ACTIVE],
    [&settings::TRIM_MIN_ACTIVE, &settings::TRIM_MAX_ACTIVE],
    [
        &settings::INITIALIZING_MIN_ACTIVE,
        &settings::INITIALIZING_MAX_ACTIVE,
    ],
];

impl QueueLimits {
    /// The limits in force while `load` percent of what may be dirty is dirty.
    fn now(load: u64) -> Self {
        let number = |setting: &Setting| u32::try_from(setting.get()).unwrap_or(u32::MAX);
        let mut classes = CLASS_SETTINGS.map(|settings| {
            let [min_active, max_active] = settings.map(number);
            ClassLimits {
                min_active: min_active.min(max_active),
                max_active,
            }
        });
        let writes = &mut classes[IoClass::AsyncWrite as usize];
        writes.max_active = writes_at_once(*writes, load);
        Self {
            classes,
            max_active: number(&settings::VDEV_MAX_ACTIVE),
        }
    }
}

impl QueueLimits {
    /// The limits of a device that answers many requests as fast as one.
    fn deepened(mut self) -> Self {
        for limits in &mut self.classes {
            limits.max_active = limits.max_active.saturating_mul(DEEP_FACTOR);
        }
        self
    }
}

/// How many writes of transaction groups may be under way: few while little is dirty, to leave the
/// device to others, and more the closer writers are to being throttled.
fn writes_at_once(limits: ClassLimits, load: u64) -> u32 {
    let from = settings::ASYNC_WRITE_MIN_DIRTY_PERCENT.get();
    let to = settings::ASYNC_WRITE_MAX_DIRTY_PERCENT.get();
    if load >= to {
        return limits.max_active;
    }
    if load <= from {
        return limits.min_active;
    }
    let range = u64::from(limits.max_active - limits.min_active);
    let more = range * (load - from) / (to - from);
    limits.min_active + u32::try_from(more).expect("less than the range, which is 32 bits wide")
}

#[derive(Debug, Default)]
struct Counts {
    active: [u32; CLASSES],
    waiting: [u32; CLASSES],
    /// Places given to waiters that have not woken up yet; they count as active.
    granted: [u32; CLASSES],
    /// When each request under way began.
    begun: Vec<Duration>,
}

impl Counts {
    fn total(&self) -> u32 {
        self.active.iter().sum()
    }

    fn has_room(&self, class: usize, limits: &QueueLimits) -> bool {
        self.active[class] < limits.classes[class].max_active
            && self.total() < limits.max_active.max(1)
    }

    /// The class whose waiter goes next.
    fn next(&self, limits: &QueueLimits) -> Option<usize> {
        let waiting = || (0..CLASSES).filter(|class| self.waiting[*class] > self.granted[*class]);
        let is_short = |class: &usize| self.active[*class] < limits.classes[*class].min_active;
        let mut short = waiting().filter(is_short);
        let candidate = short.next().or_else(|| {
            waiting().find(|class| self.active[*class] < limits.classes[*class].max_active)
        });
        candidate.filter(|class| self.has_room(*class, limits))
    }
}

/// The queue of one leaf.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    counts: Mutex<Counts, ranks::VdevQueue>,
    /// How reads that verify make room for users'.
    pub courtesy: Courtesy,
    /// How much was dirty, in percent, when a write of a transaction group came last.
    load: AtomicU64,
    /// Whether the device answers many requests as fast as one.
    is_deep: AtomicBool,
    /// One for each class, to wake only threads that may proceed.
    turns: [Condvar; CLASSES],
}

/// A request under way; it leaves the queue when this is dropped.
#[derive(Debug)]
pub(crate) struct Admitted<'a> {
    queue: &'a Queue,
    class: usize,
    begun: Duration,
    /// How long it waited.
    pub waited: Duration,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock()
    }

    fn limits(&self) -> QueueLimits {
        let limits = QueueLimits::now(self.load.load(Ordering::Relaxed));
        match self.is_deep.load(Ordering::Relaxed) {
            true => limits.deepened(),
            false => limits,
        }
    }

    /// From now on so many more requests go at once as suits a device that answers many as fast as
    /// one.
    pub(crate) fn deepen(&self) {
        self.is_deep.store(true, Ordering::Relaxed);
    }

    /// Waits for a place among the writes of transaction groups, while `load` percent of what may
    /// be dirty is dirty.
    pub(crate) fn enter_writing(&self, load: u64, env: &dyn Env) -> Admitted<'_> {
        self.load.store(load, Ordering::Relaxed);
        self.enter(IoClass::AsyncWrite, env)
    }

    /// Waits for a place in the class.
    pub(crate) fn enter(&self, class: IoClass, env: &dyn Env) -> Admitted<'_> {
        let class = class as usize;
        let mut waited = Duration::ZERO;
        let mut counts = self.lock();
        if counts.has_room(class, &self.limits()) {
            counts.active[class] += 1;
        } else {
            counts.waiting[class] += 1;
            let since = env.monotonic();
            while counts.granted[class] == 0 {
                let woken = self.turns[class].wait(counts);
                counts = woken;
            }
            counts.granted[class] -= 1;
            counts.waiting[class] -= 1;
            waited = env.monotonic().saturating_sub(since);
        }
        let begun = env.monotonic();
        counts.begun.push(begun);
        Admitted {
            queue: self,
            class,
            begun,
            waited,
        }
    }

    /// By class: requests under way, and those that wait.
    pub(crate) fn depths(&self) -> [(u32, u32); CLASSES] {
        let counts = self.lock();
        std::array::from_fn(|class| {
            // A place that was given to a waiter counts as under way.
            let waiting = counts.waiting[class].saturating_sub(counts.granted[class]);
            (counts.active[class], waiting)
        })
    }

    /// When the request began that is under way for longest.
    pub(crate) fn oldest(&self) -> Option<Duration> {
        self.lock().begun.iter().min().copied()
    }

    /// Requests under way.
    #[cfg(test)]
    fn active(&self) -> u32 {
        self.lock().total()
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        let limits = self.queue.limits();
        let mut counts = self.queue.lock();
        counts.active[self.class] -= 1;
        let own = counts.begun.iter().position(|begun| *begun == self.begun);
        counts.begun.swap_remove(own.expect("it is under way"));
        while let Some(class) = counts.next(&limits) {
            counts.active[class] += 1;
            counts.granted[class] += 1;
            self.queue.turns[class].notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_base::RealEnv;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn the_least_of_each_class_goes_first() {
        let limits = QueueLimits::now(100);
        let mut counts = Counts::default();
        assert_eq!(counts.next(&limits), None, "no request waits");
        counts.waiting = [5; CLASSES];
        counts.active = [10, 10, 0, 2, 1, 1, 1];
        assert_eq!(counts.next(&limits), Some(IoClass::AsyncRead as usize));
        counts.active = [10, 10, 1, 2, 1, 1, 1];
        assert_eq!(counts.next(&limits), Some(IoClass::AsyncRead as usize));
        counts.active = [10, 10, 3, 2, 1, 1, 1];
        assert_eq!(counts.next(&limits), Some(IoClass::AsyncWrite as usize));
        counts.active = [10, 10, 3, 10, 3, 2, 1];
        assert_eq!(counts.next(&limits), None, "all have their most");
        let few = QueueLimits {
            max_active: 3,
            ..limits
        };
        counts.active = [0, 0, 1, 1, 1, 0, 0];
        assert_eq!(counts.next(&few), None);
    }

    #[test]
    fn no_class_exceeds_its_most_and_all_get_through() {
        let queue = Arc::new(Queue::default());
        let inside: Arc<[AtomicU32; CLASSES]> = Arc::default();
        let threads: Vec<_> = (0..28)
            .map(|index| {
                let class = IoClass::ALL[index % CLASSES];
                let queue = Arc::clone(&queue);
                let inside = Arc::clone(&inside);
                std::thread::spawn(move || {
                    for _ in 0..200 {
                        let admitted = queue.enter(class, &RealEnv::new());
                        let now = inside[class as usize].fetch_add(1, Ordering::SeqCst) + 1;
                        let most = QueueLimits::now(100).classes[class as usize].max_active;
                        assert!(now <= most, "{class:?}: {now}");
                        std::thread::yield_now();
                        inside[class as usize].fetch_sub(1, Ordering::SeqCst);
                        drop(admitted);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no limit was exceeded");
        }
        assert_eq!(queue.active(), 0);
    }

    #[test]
    fn deep_queues_take_more() {
        let queue = Queue::default();
        let most = |queue: &Queue| queue.limits().classes[IoClass::AsyncRead as usize].max_active;
        let before = most(&queue);
        queue.deepen();
        assert_eq!(most(&queue), before * DEEP_FACTOR);
    }

    #[test]
    fn each_class_goes_by_its_own_settings() {
        for (class, [least, most]) in IoClass::ALL.into_iter().zip(CLASS_SETTINGS) {
            let name = |bound| format!("zfs_vdev_{}_{bound}_active", class.name());
            assert_eq!((least.name, most.name), (&*name("min"), &*name("max")));
        }
    }

    #[test]
    fn more_writes_go_at_once_the_more_is_dirty() {
        let limits = ClassLimits {
            min_active: 2,
            max_active: 10,
        };
        let at_once = |loads: [u64; 8]| loads.map(|load| writes_at_once(limits, load));
        assert_eq!(
            at_once([0, 30, 31, 45, 59, 60, 100, 1000]),
            [2, 2, 2, 6, 9, 10, 10, 10]
        );
        // No other test here has writes at a load between these.
        let (from, to) = (
            &settings::ASYNC_WRITE_MIN_DIRTY_PERCENT,
            &settings::ASYNC_WRITE_MAX_DIRTY_PERCENT,
        );
        from.set(50).expect("in range");
        to.set(90).expect("in range");
        let later = at_once([0, 30, 50, 55, 70, 89, 90, 100]);
        from.reset();
        to.reset();
        assert_eq!(later, [2, 2, 2, 3, 6, 9, 10, 10]);
    }
}
