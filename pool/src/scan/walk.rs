//! Reading and repairing the blocks that a turn visits.

use super::state::{Progress, Scans};
use cenote_base::{MemoryBudget, MemoryLease, Txg};
use cenote_device::BlockBuffer;
use cenote_dmu::traverse::{DiskOrder, Limits, Reader, Root, Visit, Visitor};
use cenote_dmu::{Block, DmuError};
use cenote_dsl::ErrorEntry;
use cenote_io::{IoContext, MendScope, Pipeline, ReadContext};
use cenote_ondisk::BlockPointer;
use cenote_vdev::{BatchRead, TxgSet};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Times its size that a block takes while its columns and parity are compared.
const COPIES_IN_MEMORY: u64 = 4;
/// What a turn reads at once: small groups, so that many devices are busy with little memory.
pub(super) const LIMITS: Limits = Limits {
    batch: 64,
    leaves: 32 * 1024,
    group_bytes: 1 << 20,
    groups: 64,
};
/// How long a block waits for the buffers of others: far longer than any of them takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Which blocks are repaired, and how.
#[derive(Clone, Debug)]
pub(super) enum Due {
    /// All of a scrub: born after the first and up to the second.
    All(Txg, Txg),
    /// Those with a part that was written in these groups: some device missed them.
    Stale(TxgSet),
}

impl Due {
    fn scope(&self) -> MendScope {
        match self {
            Self::All(..) => MendScope::All,
            Self::Stale(_) => MendScope::Stale,
        }
    }

    /// A scrub is about what devices have. A resilver reads what others hold for one that lacks it,
    /// from wherever that is nearest.
    fn io(&self) -> IoContext {
        match self {
            Self::All(..) => IoContext::VERIFICATION,
            Self::Stale(_) => IoContext::SCRUB,
        }
    }
}

/// Reads and repairs blocks.
#[derive(Clone, Debug)]
pub(super) struct Mender {
    pub pipeline: Arc<Pipeline>,
    /// What the blocks that are being compared may take.
    pub buffers: Arc<MemoryBudget>,
    pub due: Arc<Due>,
}

/// What became of a block.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// What it holds, if it leads to others.
    contents: Option<Block>,
    /// It is lost, or a part of it.
    is_lost: bool,
}

impl Mender {
    fn is_due(&self, pointer: &BlockPointer) -> bool {
        let birth = pointer.physical_birth();
        match &*self.due {
            Due::All(min, max) => birth > *min && birth <= *max,
            Due::Stale(txgs) => self.pipeline.vdevs().is_written_in(pointer, txgs),
        }
    }

    /// Repairs a block. Returns the stored bytes if all of them were read.
    fn mend(&self, visit: &Visit) -> (Option<Vec<u8>>, bool) {
        let _lease = self.lease(visit.pointer.physical_size());
        self.mend_leased(visit, &self.due.io())
    }

    /// Memory for blocks of so many bytes. A block larger than the budget gets all of it. If other
    /// users do not release memory in time, the block is read without.
    fn lease(&self, bytes: u64) -> Option<MemoryLease> {
        let bytes = bytes.saturating_mul(COPIES_IN_MEMORY);
        let bytes = bytes.min(self.buffers.limit());
        self.buffers.lease_patiently(bytes, PATIENCE).ok()
    }

    fn mend_leased(&self, visit: &Visit, io: &IoContext) -> (Option<Vec<u8>>, bool) {
        let scope = self.due.scope();
        let mended = self
            .pipeline
            .mend(&visit.pointer, visit.bookmark, scope, io);
        match mended {
            Ok(mended) => (mended.data, mended.lost > 0),
            Err(_) => (None, true),
        }
    }

    fn contents(&self, visit: &Visit, stored: Option<Vec<u8>>) -> Option<Block> {
        let (pointer, bookmark) = (&visit.pointer, visit.bookmark);
        let stored = match stored {
            Some(stored) => stored,
            None => {
                let read = self
                    .pipeline
                    .read_stored(pointer, bookmark, &IoContext::SCRUB);
                read.ok()?
            }
        };
        // What leads on can be read without keys.
        let context = ReadContext {
            bookmark,
            keys: None,
        };
        let contents = self.pipeline.decode(pointer, &stored, context).ok()?;
        let contents = contents.unwrap_or_else(|| BlockBuffer::copy_of(&stored));
        Some(Arc::new(contents))
    }
}

impl Reader for Mender {
    type Found = Outcome;

    fn read(&self, visit: &Visit, _: &Root) -> Outcome {
        let (stored, is_lost) = match self.is_due(&visit.pointer) {
            true => self.mend(visit),
            false => (None, false),
        };
        let contents = self.contents(visit, stored);
        Outcome {
            is_lost: is_lost || contents.is_none(),
            contents,
        }
    }

    fn read_group(&self, group: &[Visit], _: &[Root]) -> Vec<Outcome> {
        let sizes = group.iter().map(|visit| visit.pointer.physical_size());
        let _lease = self.lease(sizes.fold(0, u64::saturating_add));
        let io = match self.due.scope() {
            MendScope::All => {
                let io = self.due.io();
                let places = group.iter().flat_map(places_of).collect::<Vec<_>>();
                let vdevs = self.pipeline.vdevs();
                io.with_windows(vdevs.read_windows(&places, &io))
            }
            MendScope::Stale => self.due.io(),
        };
        let mend = |visit: &Visit| Outcome {
            contents: None,
            is_lost: self.mend_leased(visit, &io).1,
        };
        group.iter().map(mend).collect()
    }
}

/// Where the copies of a block are; of a gang nothing.
fn places_of(visit: &Visit) -> Vec<BatchRead> {
    let pointer = &visit.pointer;
    if pointer.is_gang() || pointer.is_embedded() {
        return Vec::new();
    }
    let size = usize::try_from(pointer.physical_size()).expect("checked to be at most 16 MiB");
    let place = |dva| BatchRead {
        dva,
        size,
        birth: pointer.physical_birth(),
    };
    pointer.dvas().map(place).collect()
}

/// The state of a turn's walk.
pub(super) struct Round<'a> {
    pub mender: Mender,
    pub scans: &'a Scans,
    /// Whether the turn's time is over.
    pub is_over: &'a dyn Fn() -> bool,
    pub walked: Walked,
}

/// What a turn did.
#[derive(Debug, Default)]
pub(super) struct Walked {
    /// How much.
    pub done: Progress,
    /// What it found lost.
    pub lost: BTreeSet<ErrorEntry>,
    /// Blocks that lead to others could not be read: blocks born up to this group may not have
    /// been met.
    pub unwalked: Option<Txg>,
}

/// Blocks that one turn remembers as lost; more are only counted.
const LOST_MAX: usize = 10_000;

impl Round<'_> {
    fn count(&mut self, progress: Progress) {
        self.walked.done.add(progress);
        self.scans.live().fresh.add(progress);
    }

    fn note_lost(&mut self, visit: &Visit) {
        if self.walked.lost.len() < LOST_MAX {
            self.walked.lost.insert(ErrorEntry {
                objset: visit.bookmark.objset,
                object: visit.bookmark.object,
                level: i64::from(visit.bookmark.level.0),
                block: visit.bookmark.block.0,
                birth: Some(visit.pointer.logical_birth()),
            });
        }
    }
}

impl Round<'_> {
    /// What is below a block was not met.
    fn note_unwalked(&mut self, visit: &Visit) {
        let birth = visit.pointer.logical_birth();
        self.walked.unwalked = self.walked.unwalked.max(Some(birth));
    }
}

impl Visitor for Round<'_> {
    type Reader = Mender;

    fn reader(&self) -> Mender {
        self.mender.clone()
    }

    fn wants(&mut self, visit: &Visit) -> bool {
        let is_stored = !visit.pointer.is_embedded();
        is_stored && (visit.leads_on() || self.mender.is_due(&visit.pointer))
    }

    fn admit(&mut self, _: &Visit) -> bool {
        true
    }

    fn found(&mut self, visit: &Visit, found: Outcome) -> Option<Block> {
        let examined = visit.pointer.allocated_size();
        let is_due = self.mender.is_due(&visit.pointer);
        self.count(Progress {
            examined,
            issued: if is_due { examined } else { 0 },
            processed: 0,
            errors: u64::from(found.is_lost),
        });
        if found.is_lost {
            self.note_lost(visit);
        }
        if visit.leads_on() && found.contents.is_none() {
            self.note_unwalked(visit);
        }
        found.contents
    }

    fn damaged(&mut self, visit: &Visit, _: DmuError) {
        let errors = 1;
        self.count(Progress {
            errors,
            ..Progress::default()
        });
        self.note_unwalked(visit);
        self.note_lost(visit);
    }

    fn goes_on(&mut self, _: Option<usize>) -> bool {
        !(self.is_over)()
    }

    fn progressed(&mut self, _: Option<usize>) {}
}

/// Walks until the turn's time is over, and reads what has gathered until then.
pub(super) fn walk(order: &mut DiskOrder, round: &mut Round<'_>) {
    order.run(round);
    order.drain(round);
}
