//! Blocks of a transaction group that devices took before its uberblock.
//!
//! A device that was away may have lost what it was not told to make durable. It may also be
//! another one that came back: a copy from before, which lacks what was flushed as well. Only the
//! uberblock says on the device itself which of the two it is. So until that is written, whoever
//! lets a group go on looks at each of its blocks again, flushed or not. Those whose flight has
//! not landed are not here, for they are sent once more.

use crate::pipeline::Pipeline;
use crate::{checksum, gang};
use cenote_base::Bookmark;
use cenote_base::rt::{Mutex, MutexGuard, ranks};
use cenote_ondisk::BlockPointer;
use cenote_vdev::{CopyHealth, IoContext, Kept};
use std::collections::HashMap;

/// More blocks are not remembered: 10 MiB of pointers. Of blocks that were flushed these are enough
/// to tell whether a device is a copy from before, which lacks all of them.
const BLOCKS_MAX: usize = 1 << 16;

/// What landed since the last flush.
#[derive(Debug, Default)]
pub(crate) struct Unflushed {
    state: Mutex<State, ranks::Unflushed>,
}

/// Blocks by address: one may be written again in its place.
type Blocks = HashMap<[u64; 2], (BlockPointer, Bookmark)>;

#[derive(Debug, Default)]
struct State {
    /// Blocks that are not flushed.
    blocks: Blocks,
    /// There are more of them.
    is_too_much: bool,
    /// Blocks that are flushed and that no uberblock on disk leads to yet.
    flushed: Blocks,
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
            state.flushed.remove(&address_of(&pointer));
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
            let address = address_of(&pointer);
            if state.blocks.len() < BLOCKS_MAX || state.blocks.contains_key(&address) {
                state.blocks.insert(address, (pointer, bookmark));
            } else {
                state.is_too_much = true;
            }
        }
        true
    }

    /// How often devices were exchanged.
    pub(super) fn exchanges(&self) -> u64 {
        self.lock().exchanges
    }

    /// Notes that devices are exchanged. Returns what landed before, in order of address, and
    /// whether blocks that are not flushed were too many to be remembered.
    fn exchange(&self) -> (Vec<(BlockPointer, Bookmark)>, bool) {
        let mut state = self.lock();
        state.exchanges += 1;
        let all = state.flushed.values().chain(state.blocks.values());
        let mut blocks: Vec<_> = all.copied().collect();
        blocks.sort_unstable_by_key(|(pointer, _)| address_of(pointer));
        (blocks, state.is_too_much)
    }

    /// Notes that the devices made everything durable.
    fn flushed(&self) {
        let mut state = self.lock();
        let blocks = std::mem::take(&mut state.blocks);
        let room = BLOCKS_MAX.saturating_sub(state.flushed.len());
        state.flushed.extend(blocks.into_iter().take(room));
        state.is_too_much = false;
    }

    /// Notes that an uberblock leads to what was flushed.
    fn committed(&self) {
        self.lock().flushed = Blocks::new();
    }
}

impl Pipeline {
    /// Notes that the devices made everything durable.
    pub fn flushed(&self) {
        self.writing.unflushed.flushed();
    }

    /// Notes that the uberblock is on disk that leads to everything that was flushed.
    pub fn committed(&self) {
        self.writing.unflushed.committed();
    }

    /// Has what is on its way sent again, since devices were exchanged for others; says what these
    /// have of everything that landed since the last uberblock. It does not wait for devices.
    pub fn exchanged(&self) -> Kept {
        self.healing.forget();
        let (blocks, is_too_much) = self.writing.unflushed.exchange();
        let mut kept = Kept {
            is_unknown: is_too_much,
            ..Kept::default()
        };
        for (pointer, bookmark) in blocks {
            self.look_for(&pointer, bookmark, &mut kept);
            if kept.is_lost {
                break;
            }
        }
        kept
    }

    /// Looks whether all copies of a block, or of a gang block's members, are there.
    fn look_for(&self, pointer: &BlockPointer, bookmark: Bookmark, kept: &mut Kept) {
        if pointer.is_gang() {
            match gang::parts(self, pointer, bookmark, &IoContext::COMMAND) {
                Ok(parts) => {
                    let members = parts.iter().filter(|part| !part.is_gang());
                    members.for_each(|member| self.look_for(member, bookmark, kept));
                }
                Err(_) => kept.is_unknown = true,
            }
            return;
        }
        let salt = self.salt.get();
        let is_right = |data: &[u8]| checksum::verify(pointer, data, salt) == Ok(true);
        self.look_for_copies(pointer, &is_right, kept);
    }

    /// Looks whether all copies of a block are there, which is right if `is_right` says so.
    pub fn look_for_copies(
        &self,
        pointer: &BlockPointer,
        is_right: &dyn Fn(&[u8]) -> bool,
        kept: &mut Kept,
    ) {
        let Ok(size) = usize::try_from(pointer.physical_size()) else {
            kept.is_unknown = true;
            return;
        };
        let birth = pointer.physical_birth();
        for dva in pointer.dvas() {
            let vdevs = self.vdevs();
            let Ok(report) = vdevs.check_copies(dva, size, birth, is_right, &IoContext::COMMAND)
            else {
                kept.is_unknown = true;
                continue;
            };
            // What a leaf that is still away lacks, it will be found to have missed.
            let lacks = |health| matches!(health, CopyHealth::Wrong | CopyHealth::Undecided);
            let lacking = report.verdicts.iter().filter(|found| lacks(found.health));
            let before = kept.lacking.len();
            kept.lacking.extend(lacking.map(|found| found.leaf));
            match report.data {
                Some(_) => {}
                None if kept.lacking.len() > before => kept.is_lost = true,
                None => kept.is_unknown = true,
            }
        }
    }
}
