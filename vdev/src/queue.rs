//! Who may use a device now: a queue for each leaf, with a class for each purpose.
//!
//! A device works best with a few requests at once, and answers each of many slowly. So every
//! request enters the leaf's queue in its class, and waits while the class has its most under
//! way. When a place gets free, the classes that have fewer than their *least* under way go
//! first, then the others, both in the order of [`IoClass`]: nobody starves, and what a person
//! waits for goes before what happens in the background. The limits are those of OpenZFS, by
//! the same names (`zfs_vdev_sync_read_min_active` and so on).
//!
//! The queue only admits: requests are made by the threads that want them.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock};

/// What a request is for, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IoClass {
    /// Somebody waits for the data.
    SyncRead,
    /// Somebody waits until it is written: labels, uberblocks, intent logs.
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
const CLASSES: usize = 7;

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

/// Limits of one class on one leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassLimits {
    /// Requests that go before other classes' surplus.
    pub min_active: u32,
    /// Requests at once at most.
    pub max_active: u32,
}

/// The limits of every leaf's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    classes: [ClassLimits; CLASSES],
    /// Requests of all classes at once at most (`zfs_vdev_max_active`).
    pub max_active: u32,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

const fn limits(min_active: u32, max_active: u32) -> ClassLimits {
    ClassLimits {
        min_active,
        max_active,
    }
}

impl QueueLimits {
    /// OpenZFS's defaults.
    pub const DEFAULT: Self = Self {
        classes: [
            limits(10, 10),
            limits(10, 10),
            limits(1, 3),
            limits(2, 10),
            limits(1, 3),
            limits(1, 2),
            limits(1, 1),
        ],
        max_active: 1000,
    };

    /// The limits of a class.
    pub fn class(&self, class: IoClass) -> ClassLimits {
        self.classes[class as usize]
    }

    /// Sets the limits of a class; none is less than one request.
    pub fn set_class(&mut self, class: IoClass, limits: ClassLimits) {
        self.classes[class as usize] = ClassLimits {
            min_active: limits.min_active.clamp(1, limits.max_active.max(1)),
            max_active: limits.max_active.max(1),
        };
    }
}

/// The limits in force: like OpenZFS's, they hold for all pools of the process.
static LIMITS: RwLock<QueueLimits> = RwLock::new(QueueLimits::DEFAULT);

/// The limits in force.
pub fn queue_limits() -> QueueLimits {
    *LIMITS.read().unwrap_or_else(PoisonError::into_inner)
}

/// Changes the limits of all leaves' queues, from the next request on.
pub fn set_queue_limits(limits: QueueLimits) {
    *LIMITS.write().unwrap_or_else(PoisonError::into_inner) = limits;
}

thread_local! {
    /// The purpose of what this thread reads.
    static READS_FOR: Cell<IoClass> = const { Cell::new(IoClass::SyncRead) };
}

/// Does `work`, in which this thread's reads from vdevs are of another class than
/// [`IoClass::SyncRead`]: read-ahead, verification.
pub fn with_read_class<T>(class: IoClass, work: impl FnOnce() -> T) -> T {
    let before = READS_FOR.replace(class);
    let result = work();
    READS_FOR.set(before);
    result
}

/// The class of this thread's reads.
pub(crate) fn read_class() -> IoClass {
    READS_FOR.get()
}

#[derive(Debug, Default)]
struct Counts {
    active: [u32; CLASSES],
    waiting: [u32; CLASSES],
    /// Places given to waiters that have not woken up yet; they count as active.
    granted: [u32; CLASSES],
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
    counts: Mutex<Counts>,
    /// One for each class, so that only those who may go are woken.
    turns: [Condvar; CLASSES],
}

/// A request under way; it leaves the queue when this is dropped.
#[derive(Debug)]
pub(crate) struct Admitted<'a> {
    queue: &'a Queue,
    class: usize,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place in the class.
    pub(crate) fn enter(&self, class: IoClass) -> Admitted<'_> {
        let class = class as usize;
        let mut counts = self.lock();
        if counts.has_room(class, &queue_limits()) {
            counts.active[class] += 1;
        } else {
            counts.waiting[class] += 1;
            while counts.granted[class] == 0 {
                let woken = self.turns[class].wait(counts);
                counts = woken.unwrap_or_else(PoisonError::into_inner);
            }
            counts.granted[class] -= 1;
            counts.waiting[class] -= 1;
        }
        Admitted { queue: self, class }
    }

    /// Requests under way.
    #[cfg(test)]
    fn active(&self) -> u32 {
        self.lock().total()
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        let limits = queue_limits();
        let mut counts = self.queue.lock();
        counts.active[self.class] -= 1;
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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn the_least_of_each_class_goes_first() {
        let limits = QueueLimits::default();
        let mut counts = Counts::default();
        assert_eq!(counts.next(&limits), None, "nobody waits");
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
                        let admitted = queue.enter(class);
                        let now = inside[class as usize].fetch_add(1, Ordering::SeqCst) + 1;
                        let most = QueueLimits::default().class(class).max_active;
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
    fn a_thread_s_reads_have_the_class_of_its_work() {
        assert_eq!(read_class(), IoClass::SyncRead);
        let inner = with_read_class(IoClass::Scrub, || {
            with_read_class(IoClass::AsyncRead, read_class)
        });
        assert_eq!(
            (inner, read_class()),
            (IoClass::AsyncRead, IoClass::SyncRead)
        );
    }

    #[test]
    fn limits_are_never_nothing() {
        let mut limits = QueueLimits::default();
        let none = ClassLimits {
            min_active: 0,
            max_active: 0,
        };
        limits.set_class(IoClass::Scrub, none);
        let one = ClassLimits {
            min_active: 1,
            max_active: 1,
        };
        assert_eq!(limits.class(IoClass::Scrub), one);
    }
}
