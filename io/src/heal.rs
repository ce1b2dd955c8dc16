//! Healing: a copy that a read found wrong is written again.
//!
//! A reader that needed redundancy knows the right bytes, and the leaves that did not have them: a
//! leaf whose bytes failed the checksum, one that could not read its sectors, one that missed the
//! group that wrote the block. If another copy served, all leaves of the bad copy count. The reader
//! hands these over and continues. A thread writes them, one block after the other. The queue is
//! bounded, and further repairs are dropped: the next reader will find the same.
//!
//! **What is never done.** Bytes that failed the block's checksum are not written, nor are those of
//! a block that has none; without keys the checksum of an encrypted block is still its own. A pool
//! that is only read is not written to: healing starts only once an allocator is set. Nor is a
//! block written when the allocator refuses ([`crate::repair_space`]).
//!
//! **What is not done twice.** Healing does not remove txgs from what a leaf missed: that takes a
//! resilver. And a device may take a write and still not return the bytes. So blocks that were
//! healed on a stale leaf, and blocks that could not be healed, are remembered, and not tried again
//! for as long: a few thousand blocks, the oldest forgotten first.

use crate::faults::{BlockFault, FaultClass, FaultSink};
use crate::repair_space::{HeldPlaces, RepairSpace, SpaceStamp};
use crate::workers::Workers;
use cenote_base::rt::{Condvar, Mutex, MutexGuard, ranks};
use cenote_base::{Bookmark, Guid, Txg};
use cenote_ondisk::Dva;
use cenote_vdev::{FaultKind, IoContext, LeafFault, LeafProblem, Shape, VdevError, Vdevs};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

/// Stored bytes that may wait to be written.
const WAITING_BYTES_MAX: usize = 32 << 20;
/// Parts of blocks that are remembered because they are under way or not to be tried again.
const KNOWN_MAX: usize = 4096;

/// A copy that is to be written again, and for whom.
#[derive(Clone, Debug)]
pub(crate) struct Wound {
    pub dva: Dva,
    pub leaves: Vec<LeafFault>,
}

/// A block's contents and where they are to go.
#[derive(Debug)]
pub(crate) struct Cure {
    pub bytes: Vec<u8>,
    pub birth: Txg,
    pub stamp: SpaceStamp,
    pub wounds: Vec<Wound>,
    /// What the block was read for.
    pub io: IoContext,
}

/// One leaf's part of a copy.
type Part = ([u64; 2], Guid);

fn part_of(dva: Dva, leaf: Guid) -> Part {
    ([dva.word0, dva.word1], leaf)
}

/// What was handed over, and what is not to be handed over again.
#[derive(Debug, Default)]
struct Known {
    /// Parts in the order in which they came, with those that were struck off since.
    order: VecDeque<(Part, u64)>,
    parts: HashMap<Part, u64>,
    count: u64,
    waiting_bytes: usize,
    waiting: usize,
}

impl Known {
    /// Notes a part; false if it is known.
    fn add(&mut self, part: Part) -> bool {
        if self.parts.contains_key(&part) {
            return false;
        }
        self.count += 1;
        self.parts.insert(part, self.count);
        self.order.push_back((part, self.count));
        while self.order.len() > KNOWN_MAX {
            if let Some((oldest, count)) = self.order.pop_front()
                && self.parts.get(&oldest) == Some(&count)
            {
                self.parts.remove(&oldest);
            }
        }
        true
    }

    fn strike(&mut self, part: &Part) {
        self.parts.remove(part);
    }
}

/// What healing needs, shared with its thread.
#[derive(Debug)]
struct Ward {
    vdevs: Arc<Vdevs>,
    space: OnceLock<Arc<dyn RepairSpace>>,
    known: Mutex<Known, ranks::HealQueue>,
    idle: Condvar,
}

impl Ward {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    /// Writes a copy again to some leaves; says whether all took it.
    fn write(&self, vdevs: &Shape, cure: &Cure, dva: Dva, leaves: &[Guid]) -> bool {
        let Some(space) = self.space.get() else {
            return false;
        };
        let Ok(places) = vdevs.places(dva, cure.bytes.len(), cure.birth) else {
            return false;
        };
        let held = HeldPlaces::hold(space, places, cure.birth, cure.stamp);
        held.is_some()
            && vdevs
                .repair(dva, &cure.bytes, cure.birth, leaves, &cure.io)
                .is_ok()
    }

    fn treat(&self, cure: &Cure) {
        let _over = Over(self, cure.bytes.len());
        let vdevs = self.vdevs.shape();
        for wound in &cure.wounds {
            let leaves: Vec<Guid> = wound.leaves.iter().map(|fault| fault.leaf).collect();
            let is_written = self.write(&vdevs, cure, wound.dva, &leaves);
            let mut known = self.lock();
            for fault in &wound.leaves {
                if is_written && fault.kind != FaultKind::Stale {
                    known.strike(&part_of(wound.dva, fault.leaf));
                }
            }
        }
    }
}

/// A treatment that is over when this is dropped: also if its thread panics.
struct Over<'a>(&'a Ward, usize);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        let mut known = self.0.lock();
        known.waiting_bytes -= self.1;
        known.waiting -= 1;
        drop(known);
        self.0.idle.notify_all();
    }
}

/// The healing of one pool's blocks.
#[derive(Debug)]
pub(crate) struct Healing {
    ward: Arc<Ward>,
    thread: OnceLock<Workers>,
    sink: OnceLock<Arc<dyn FaultSink>>,
}

impl Healing {
    pub(crate) fn new(vdevs: Arc<Vdevs>) -> Self {
        let ward = Ward {
            vdevs,
            space: OnceLock::new(),
            known: Mutex::default(),
            idle: Condvar::new(),
        };
        Self {
            ward: Arc::new(ward),
            thread: OnceLock::new(),
            sink: OnceLock::new(),
        }
    }

    /// From now on what is found wrong is written again; a second call changes nothing.
    pub(crate) fn begin(&self, space: Arc<dyn RepairSpace>) {
        let _ = self.ward.space.set(space);
    }

    pub(crate) fn set_sink(&self, sink: Arc<dyn FaultSink>) {
        let _ = self.sink.set(sink);
    }

    /// The allocator as repairs see it, if repairs are made at all.
    pub(crate) fn space(&self) -> Option<&Arc<dyn RepairSpace>> {
        self.ward.space.get()
    }

    /// The moment before a read; `None` if what it finds is not going to be healed.
    pub(crate) fn stamp(&self) -> Option<SpaceStamp> {
        Some(self.space()?.stamp())
    }

    /// Hands a block over to be healed, as far as that has not been done already.
    pub(crate) fn hand_over(&self, mut cure: Cure) {
        let vdevs = self.ward.vdevs.shape();
        let mut known = self.ward.lock();
        if known.waiting_bytes + cure.bytes.len() > WAITING_BYTES_MAX {
            return;
        }
        for wound in &mut cure.wounds {
            wound.leaves.retain(|fault| {
                vdevs.is_writable(fault.leaf) && known.add(part_of(wound.dva, fault.leaf))
            });
        }
        cure.wounds.retain(|wound| !wound.leaves.is_empty());
        if cure.wounds.is_empty() {
            return;
        }
        known.waiting_bytes += cure.bytes.len();
        known.waiting += 1;
        drop(known);
        let ward = Arc::clone(&self.ward);
        let thread = self.thread.get_or_init(|| Workers::new(1));
        // A full queue makes the reader do it: that bounds what can pile up.
        thread.run(move || ward.treat(&cure));
    }

    /// Waits until nothing more waits to be healed.
    pub(crate) fn finish(&self) {
        let known = self.ward.lock();
        let idle = self.ward.idle.wait_while(known, |k| k.waiting > 0);
        drop(idle);
    }

    /// Devices are not what they were: everything is worth another try.
    pub(crate) fn forget(&self) {
        let mut known = self.ward.lock();
        known.parts.clear();
        known.order.clear();
    }

    /// Tells of the faults of a copy.
    pub(crate) fn tell(&self, block: &BlockFault, faults: &[LeafFault]) {
        let Some(sink) = self.sink.get() else {
            return;
        };
        for fault in faults {
            let class = match fault.kind {
                FaultKind::Wrong => FaultClass::Checksum,
                FaultKind::Unreadable => FaultClass::Io,
                // That it missed the block is known already.
                FaultKind::Stale => continue,
            };
            let leaf = Some(fault.leaf);
            sink.fault(&BlockFault {
                class,
                leaf,
                ..*block
            });
        }
    }

    /// Tells that a block is lost.
    pub(crate) fn tell_lost(&self, block: &BlockFault) {
        if let Some(sink) = self.sink.get() {
            sink.fault(block);
        }
    }
}

/// A fault to report in the copy of a block at `dva`.
pub(crate) fn block_fault(dva: Dva, size: usize, birth: Txg, bookmark: Bookmark) -> BlockFault {
    BlockFault {
        class: FaultClass::Data,
        leaf: None,
        dva,
        size,
        birth,
        bookmark,
    }
}

/// What leaves did in a read that failed.
pub(crate) fn faults_in(error: &VdevError) -> Vec<LeafFault> {
    let failures = match error {
        VdevError::Damaged { failures, .. } | VdevError::Unreadable { failures, .. } => failures,
        _ => return Vec::new(),
    };
    let fault = |problem: &LeafProblem| match problem {
        LeafProblem::WrongBytes => Some(FaultKind::Wrong),
        LeafProblem::Device(_) => Some(FaultKind::Unreadable),
        LeafProblem::NotOpen(..)
        | LeafProblem::Strayed(_)
        | LeafProblem::Unflushed
        | LeafProblem::LostWrites
        | LeafProblem::OlderCopy => None,
    };
    let failures = failures.iter();
    let faults = failures.filter_map(|failure| {
        let kind = fault(&failure.problem)?;
        let leaf = failure.guid;
        Some(LeafFault { leaf, kind })
    });
    faults.collect()
}
