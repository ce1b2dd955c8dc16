//! What a pool remembers of its scan while it is open.

use cenote_base::rt::{Job, Mutex, MutexGuard, ranks};
use cenote_base::{Guid, Txg};
use cenote_vdev::ResilverTarget;

/// What the running scan did since its state was stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Bytes walked over.
    pub examined: u64,
    /// Bytes read.
    pub issued: u64,
    /// Bytes written again.
    pub processed: u64,
    /// Blocks that are lost.
    pub errors: u64,
}

impl Progress {
    pub fn add(&mut self, other: Self) {
        self.examined += other.examined;
        self.issued += other.issued;
        self.processed += other.processed;
        self.errors += other.errors;
    }
}

/// What is known of the running scan beside what stands on disk.
///
/// Only the syncing thread changes what says which scan it is and for which leaves.
#[derive(Debug, Default)]
pub(crate) struct Live {
    /// Not stored yet.
    pub fresh: Progress,
    /// Stored since this process resumed the scan.
    pub stored: Progress,
    /// When that began: seconds UTC.
    pub pass_start: u64,
    /// When the scan was paused: seconds UTC.
    pub pause_time: u64,
    /// Counts the scans that began or were resumed here.
    pub generation: u64,
    /// The group that the scan began in.
    pub begun_in: Txg,
    /// The leaves that the running resilver is for, as decided in that group.
    pub targets: Vec<ResilverTarget>,
    /// Another resilver is due when this one ends.
    pub again: bool,
    /// A scrub is due when this resilver ends.
    pub scrub_follows: bool,
}

impl Live {
    /// Another scan begins, or is resumed here.
    pub fn begin(&mut self, begun_in: Txg, seconds: u64, targets: Vec<ResilverTarget>) {
        *self = Self {
            pass_start: seconds,
            generation: self.generation + 1,
            begun_in,
            targets,
            scrub_follows: self.scrub_follows,
            ..Self::default()
        };
    }
}

/// The scan of a pool.
#[derive(Debug, Default)]
pub(crate) struct Scans {
    live: Mutex<Live, ranks::Scans>,
    /// Working on it.
    pub job: Job,
}

impl Scans {
    pub fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock()
    }

    /// Whether the running resilver is for a leaf.
    pub fn is_target(&self, leaf: Guid) -> bool {
        let live = self.live();
        live.targets.iter().any(|target| target.leaf == leaf)
    }

    /// Ends the thread. The scan's state stays in the pool, and the next import resumes it.
    pub fn stop(&self) {
        self.job.close();
    }
}
