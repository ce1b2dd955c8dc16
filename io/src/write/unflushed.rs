//! Blocks of a transaction group that devices took before its uberblock.
//!
//! A device whose flush fails, or that was away, may have lost what it had not made durable. A disk
//! that was without power for a moment does not even report it. So what landed is kept in memory
//! until a flush succeeds. After a failure all of it is written again, and then flushed again: at
//! once, and once more whenever the administrator resumes the pool. The buffers are those that were
//! written, so that keeping them copies nothing. Beyond [`bytes_max`] the devices are flushed
//! before more is written, which bounds the memory.
//!
//! A device that returns may also be an older copy, which lacks what was flushed as well. Only the
//! uberblock on the device itself tells which of the two it is. So until that is written, each
//! flushed block is read again before a group continues.
//!
//! Blocks whose flight has not landed are not here: if devices are exchanged, or all is written
//! again, their flight is sent once more. Blocks of intent logs are not here either: a commit whose
//! flush fails waits for its group.

use super::flight::{Flight, send_now};
use crate::pipeline::Pipeline;
use crate::{checksum, gang};
use cenote_base::rt::{Mutex, MutexGuard, ranks};
use cenote_base::{Bookmark, settings};
use cenote_ondisk::{BlockPointer, Dva};
use cenote_vdev::{CopyHealth, IoContext, Kept, VdevError, VdevWrite};
use std::collections::HashMap;

/// Flushed blocks are not remembered beyond that: 10 MiB of pointers. These are enough to tell
/// whether a device is a copy from before, which lacks all of them.
const BLOCKS_MAX: usize = 1 << 16;
/// More writes are not kept, however small they are: about 20 MiB beside their bytes.
const WRITES_MAX: usize = 1 << 16;
/// Bytes that are kept: a quarter of what may be dirty, within these bounds.
const BYTES_MIN: u64 = 32 << 20;
const BYTES_MAX: u64 = 256 << 20;
/// Bytes that are written again at once.
const AGAIN_BYTES: usize = 16 << 20;

/// Bytes that are kept at most, beside those of the last flight.
fn bytes_max() -> u64 {
    (settings::dirty_bytes_max() / 4).clamp(BYTES_MIN, BYTES_MAX)
}

/// What landed since the last flush.
#[derive(Debug, Default)]
pub(crate) struct Unflushed {
    state: Mutex<State, ranks::Unflushed>,
    /// Held while copies are written again that others may replace meanwhile.
    again: Mutex<(), ranks::WritingAgain>,
}

/// Where a copy begins: vdev and offset. One may be written again in its place.
type Place = (u64, u64);

/// Blocks that are flushed.
type Blocks = HashMap<Place, (BlockPointer, Bookmark)>;

/// A copy of a block that devices took.
#[derive(Debug)]
struct Landed {
    write: VdevWrite,
    /// When it landed.
    number: u64,
    /// The block, if this is its first copy.
    block: Option<(BlockPointer, Bookmark)>,
}

/// What is written again, with the block if it is its first copy.
type Again = (VdevWrite, Option<(BlockPointer, Bookmark)>);

#[derive(Debug, Default)]
struct State {
    /// What is not flushed.
    landed: HashMap<Place, Landed>,
    /// Bytes of that.
    bytes: u64,
    /// Counts what lands.
    number: u64,
    /// A device may have lost some of it: all is written again before the next flush.
    is_doubtful: bool,
    /// Blocks that are flushed and that no uberblock on disk leads to yet.
    flushed: Blocks,
    /// How often devices were exchanged, or all was written again.
    exchanges: u64,
}

impl State {
    fn remove(&mut self, place: Place) -> bool {
        let removed = self.landed.remove(&place);
        if let Some(landed) = &removed {
            self.bytes -= landed.write.data.len() as u64;
        }
        removed.is_some()
    }

    fn writes(&self) -> Vec<Again> {
        let landed = self.landed.values();
        let mut writes: Vec<_> = landed
            .map(|landed| (landed.write.clone(), landed.block))
            .collect();
        writes.sort_unstable_by_key(|(write, _)| place_of(write.dva));
        writes
    }
}

fn place_of(dva: Dva) -> Place {
    (dva.vdev().0, dva.offset())
}

impl Unflushed {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Notes that copies are about to be sent, perhaps in place of others, and returns how often
    /// devices were exchanged before.
    pub(super) fn begin(&self, sent: impl Iterator<Item = Dva>) -> u64 {
        let mut state = self.lock();
        let mut replaces = false;
        for place in sent.map(place_of) {
            replaces |= state.remove(place);
            state.flushed.remove(&place);
        }
        let exchanges = state.exchanges;
        drop(state);
        if replaces {
            // So that the older one is not written after the newer one.
            drop(self.again.lock());
        }
        exchanges
    }

    /// Keeps blocks that landed; `false`, and nothing is kept, if devices were exchanged since they
    /// were sent. The new ones may not have them then.
    pub(super) fn add(
        &self,
        exchanges: u64,
        writes: impl Iterator<Item = VdevWrite>,
        blocks: impl Iterator<Item = (Bookmark, BlockPointer)>,
    ) -> bool {
        let mut state = self.lock();
        if state.exchanges != exchanges {
            return false;
        }
        state.number += 1;
        let number = state.number;
        for write in writes {
            let place = place_of(write.dva);
            state.remove(place);
            state.bytes += write.data.len() as u64;
            let block = None;
            let landed = Landed {
                write,
                number,
                block,
            };
            state.landed.insert(place, landed);
        }
        for (bookmark, pointer) in blocks {
            if let Some(landed) = state.landed.get_mut(&place_of(pointer.dva(0))) {
                landed.block = Some((pointer, bookmark));
            }
        }
        true
    }

    /// How often devices were exchanged.
    pub(super) fn exchanges(&self) -> u64 {
        self.lock().exchanges
    }

    /// Whether a flush is due before more is written.
    pub(super) fn is_full(&self) -> bool {
        let state = self.lock();
        let is_much = state.bytes > BYTES_MIN && state.bytes > bytes_max();
        is_much || state.landed.len() > WRITES_MAX
    }

    /// Notes that devices are exchanged. Returns what was flushed before, in order of address.
    fn exchange(&self) -> Vec<(BlockPointer, Bookmark)> {
        let mut state = self.lock();
        state.exchanges += 1;
        state.is_doubtful = true;
        let mut blocks: Vec<_> = state.flushed.values().copied().collect();
        blocks.sort_unstable_by_key(|(pointer, _)| place_of(pointer.dva(0)));
        blocks
    }

    /// Takes what has to be written again, if anything has, for flights that put it back when they
    /// land. Those that are under way are sent again, too.
    fn take_doubtful(&self) -> Option<Vec<Again>> {
        let mut state = self.lock();
        if !std::mem::take(&mut state.is_doubtful) {
            return None;
        }
        state.exchanges += 1;
        Some(state.writes())
    }

    /// Notes that a device may have lost what it took: it failed a flush, or was away.
    pub(super) fn doubt(&self) {
        self.lock().is_doubtful = true;
    }

    fn is_doubtful(&self) -> bool {
        self.lock().is_doubtful
    }

    /// The moment before a flush.
    fn number(&self) -> u64 {
        self.lock().number
    }

    /// Notes that the devices made everything durable that had landed by then.
    fn flushed(&self, number: u64) {
        let mut state = self.lock();
        let state = &mut *state;
        let (flushed, bytes) = (&mut state.flushed, &mut state.bytes);
        state.landed.retain(|place, landed| {
            let is_kept = landed.number > number;
            if !is_kept {
                *bytes -= landed.write.data.len() as u64;
                if let Some(block) = landed.block.filter(|_| flushed.len() < BLOCKS_MAX) {
                    flushed.insert(*place, block);
                }
            }
            is_kept
        });
    }

    /// Bytes that landed and are not flushed.
    fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    /// Notes that an uberblock leads to what was flushed.
    fn committed(&self) {
        self.lock().flushed = Blocks::new();
    }
}

impl Pipeline {
    /// Makes durable what the group has written so far. What may be lost is written again: once at
    /// once, and then whenever the pool's devices are said to be back, for as long as it waits.
    ///
    /// # Errors
    /// If the pool does not wait for its devices.
    pub fn make_durable(&self) -> Result<(), VdevError> {
        let suspension = &self.writing.suspension;
        let mut is_first = true;
        loop {
            let attempt = suspension.attempt();
            let doubtful = self.writing.unflushed.take_doubtful();
            let is_again = doubtful.is_some();
            if let Err(error) = doubtful.map_or(Ok(()), |writes| self.write_again(writes)) {
                self.writing.unflushed.doubt();
                return Err(error);
            }
            if self.writing.unflushed.is_doubtful() {
                // Devices were away meanwhile, when some of it had landed again.
                continue;
            }
            let number = self.writing.unflushed.number();
            let Err(error) = self.vdevs().flush_group(is_again) else {
                self.writing.unflushed.flushed(number);
                return Ok(());
            };
            self.writing.unflushed.doubt();
            let is_over = !std::mem::take(&mut is_first) && !suspension.wait(attempt, &error);
            if is_over {
                return Err(error);
            }
        }
    }

    /// Asserts that [`Self::make_durable`] left nothing to be made durable: only then may an
    /// uberblock lead to what was written.
    ///
    /// For the thread that writes groups, which is the only one that leaves metadata on its way.
    pub fn assert_durable(&self) {
        let bytes = self.writing.unflushed.bytes();
        assert_eq!(bytes, 0, "bytes are not flushed, and an uberblock is due");
        assert!(
            !self.writing.pending.has_some(),
            "blocks are on their way, and an uberblock is due"
        );
    }

    /// Writes what landed again, and waits for devices.
    fn write_again(&self, mut writes: Vec<Again>) -> Result<(), VdevError> {
        while !writes.is_empty() {
            let mut bytes = 0;
            let mut all = writes.iter();
            let end = all.position(|(write, _)| {
                bytes += write.data.len();
                bytes > AGAIN_BYTES
            });
            let rest = writes.split_off(end.map_or(writes.len(), |end| end.max(1)));
            let blocks = writes.iter().map(|(_, block)| {
                let (pointer, bookmark) = block.unzip();
                (bookmark.unwrap_or_default(), pointer)
            });
            let carried = blocks.collect();
            let writes_now = writes.into_iter().map(|(write, _)| write);
            let flight = Flight::start(self, writes_now.enumerate().collect(), 0, carried, true);
            flight.land_again(self)?;
            writes = rest;
        }
        Ok(())
    }

    /// Writes what landed again, as far as that is possible now. The next flush does so once more.
    pub fn write_again_soon(&self) {
        self.writing.unflushed.doubt();
        let _again = self.writing.unflushed.again.lock();
        let writes = self.writing.unflushed.lock().writes();
        let writes = writes.into_iter().map(|(write, _)| write);
        let _ = send_now(self, writes.enumerate().collect());
    }

    /// Notes that the uberblock is on disk that leads to everything that was flushed.
    pub fn committed(&self) {
        self.writing.unflushed.committed();
    }

    /// Has what is on its way, or landed and is not flushed, sent again, since devices were
    /// exchanged for others. Says what these have of everything that was flushed since the last
    /// uberblock. It does not wait for devices.
    pub fn exchanged(&self) -> Kept {
        self.healing.forget();
        let mut kept = Kept::default();
        for (pointer, bookmark) in self.writing.unflushed.exchange() {
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
