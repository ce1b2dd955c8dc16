//! How long the requests of a leaf took, and how large they were, by class.
//!
//! A request waits in the leaf's queue and then for the device. The second is timed anyway, for
//! slow requests are counted. The clock is read once more only for a request that has to wait in
//! the queue; one that is admitted at once has waited for nothing.

use crate::queue::{CLASSES, IoClass};
use cenote_base::metrics::{Distribution, DurationHistogram, SizeHistogram};
use std::time::Duration;

/// Requests of one class.
#[derive(Debug, Default)]
struct ClassRequests {
    total: DurationHistogram,
    device: DurationHistogram,
    queue: DurationHistogram,
    /// Requests for one block each, and those for several neighbours.
    sizes: [SizeHistogram; 2],
}

/// Requests of a leaf since it was opened.
#[derive(Debug)]
pub(crate) struct LeafStatistics(Box<[ClassRequests]>);

impl Default for LeafStatistics {
    /// Empty: interior vdevs have counters too, and no requests of their own.
    fn default() -> Self {
        Self(Box::default())
    }
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub class: IoClass,
    /// How long it waited in the queue.
    pub queued: Duration,
    /// How long the device took.
    pub took: Duration,
    pub bytes: u64,
    /// Whether it was for several blocks.
    pub is_joined: bool,
}

impl LeafStatistics {
    /// Those of a leaf.
    pub fn of_leaf() -> Self {
        Self((0..CLASSES).map(|_| ClassRequests::default()).collect())
    }

    /// Counts a request.
    pub fn note(&self, done: Done) {
        if let Some(class) = self.0.get(done.class as usize) {
            class.total.note_duration(done.queued + done.took);
            class.device.note_duration(done.took);
            class.queue.note_duration(done.queued);
            class.sizes[usize::from(done.is_joined)].note(done.bytes);
        }
    }

    /// Copies of the counters by class, with requests under way and waiting.
    pub fn figures(&self, depths: [(u32, u32); CLASSES]) -> Vec<ClassFigures> {
        let classes = self.0.iter().zip(depths);
        let figures = classes.map(|(class, (active, waiting))| ClassFigures {
            active,
            waiting,
            total: class.total.distribution(),
            device: class.device.distribution(),
            queue: class.queue.distribution(),
            single_sizes: class.sizes[0].distribution(),
            joined_sizes: class.sizes[1].distribution(),
        });
        figures.collect()
    }
}

/// Requests of one class on one leaf: a copy of its counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassFigures {
    /// Requests that the device carries out now.
    pub active: u32,
    /// Requests that wait in the queue now.
    pub waiting: u32,
    /// Nanoseconds from the queue to the end.
    pub total: Distribution,
    /// Of these, on the device.
    pub device: Distribution,
    /// Of these, in the queue.
    pub queue: Distribution,
    /// Bytes of requests for one block.
    pub single_sizes: Distribution,
    /// Bytes of requests for several neighbouring blocks.
    pub joined_sizes: Distribution,
}
