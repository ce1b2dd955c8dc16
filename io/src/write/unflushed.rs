//! Blocks that devices took and were not yet told to make durable.
//!
//! A device that was away may have lost them. Whoever lets a group go on looks at each of them
//! again; those whose flight has not landed are not here, for they are sent once more.

use crate::pipeline::Pipeline;
use crate::{checksum, gang};
use cenote_base::Bookmark;
use cenote_base::rt::{Mutex, MutexGuard, ranks};
use cenote_ondisk::BlockPointer;
use cenote_vdev::{CopyHealth, CopyVerdict, IoContext};
use std::collections::HashMap;

/// More blocks are not remembered: 10 MiB of pointers.
const BLOCKS_MAX: usize = 1 << 16;

/// What landed since the last flush.
#[derive(Debug, Default)]
pub(crate) struct Unflushed {
    state: Mutex<State, ranks::Unflushed>,
}

#[derive(Debug, Default)]
struct State {
    /// By address: a block may be written again in its place.
    blocks: HashMap<[u64; 2], (BlockPointer, Bookmark)>,
    is_too_much: bool,
    /// How often devices were exchanged.
    exchanges: u64,
}

/// A block's first address.
fn address_of(pointer: &BlockPointer) -> [u64; 2] {
    [pointer.words[0], pointer.words[1]]
}

impl Unflushed {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Notes that blocks are about to be sent, perhaps in place of others, and returns how often
    /// devices were exchanged before.
    pub(super) fn begin(&self, sent: impl Iterator<Item = (Bookmark, BlockPointer)>) -> u64 {
        let mut state = self.lock();
        for (_, pointer) in sent {
            state.blocks.remove(&address_of(&pointer));
        }
        state.exchanges
    }

    /// Notes blocks that landed; `false`, and nothing is noted, if devices were exchanged since
    /// they were sent. The new ones may not have them then.
    pub(super) fn add(
        &self,
        exchanges: u64,
        landed: impl Iterator<Item = (Bookmark, BlockPointer)>,
    ) -> bool {
        let mut state = self.lock();
        if state.exchanges != exchanges {
            return false;
        }
        for (bookmark, pointer) in landed {
            let block = (pointer, bookmark);
            state.blocks.insert(address_of(&pointer), block);
        }
        if state.blocks.len() > BLOCKS_MAX {
            state.blocks = HashMap::new();
            state.is_too_much = true;
        }
        true
    }

    /// How often devices were exchanged.
    pub(super) fn exchanges(&self) -> u64 {
        self.lock().exchanges
    }

    /// Notes that devices are exchanged; what landed before, in order of address, or `None` if it
    /// is more than is remembered.
    fn exchange(&self) -> Option<Vec<(BlockPointer, Bookmark)>> {
        let mut state = self.lock();
        state.exchanges += 1;
        if state.is_too_much {
            return None;
        }
        let mut blocks: Vec<_> = state.blocks.values().copied().collect();
        blocks.sort_unstable_by_key(|(pointer, _)| address_of(pointer));
        Some(blocks)
    }
}

impl Pipeline {
    /// Notes that the devices made everything durable.
    pub fn flushed(&self) {
        let mut state = self.writing.unflushed.lock();
        state.blocks = HashMap::new();
        state.is_too_much = false;
    }

    /// Has what is on its way sent again, since devices were exchanged for others; says whether
    /// these have every copy of everything that landed since the last flush. It does not wait for
    /// devices.
    pub fn exchanged(&self) -> bool {
        self.healing.forget();
        let blocks = self.writing.unflushed.exchange();
        blocks.is_some_and(|blocks| {
            let mut blocks = blocks.iter();
            blocks.all(|(pointer, bookmark)| self.is_there(pointer, *bookmark))
        })
    }

    /// Whether all copies of a block, or of a gang block's members, are there.
    fn is_there(&self, pointer: &BlockPointer, bookmark: Bookmark) -> bool {
        if pointer.is_gang() {
            let parts = gang::parts(self, pointer, bookmark, &IoContext::COMMAND);
            return parts.is_ok_and(|parts| {
                let mut members = parts.iter().filter(|part| !part.is_gang());
                members.all(|member| self.is_there(member, bookmark))
            });
        }
        let Ok(size) = usize::try_from(pointer.physical_size()) else {
            return false;
        };
        let salt = self.salt.get();
        let is_right = |data: &[u8]| checksum::verify(pointer, data, salt) == Ok(true);
        let birth = pointer.physical_birth();
        let is_lost = |verdict: &CopyVerdict| {
            // What a leaf that is still away lacks, it will be found to have missed.
            matches!(verdict.health, CopyHealth::Wrong | CopyHealth::Undecided)
        };
        pointer.dvas().all(|dva| {
            let report =
                self.vdevs()
                    .check_copies(dva, size, birth, &is_right, &IoContext::COMMAND);
            report.is_ok_and(|report| report.data.is_some() && !report.verdicts.iter().any(is_lost))
        })
    }
}
