//! One object's changes that are not on disk yet.
//!
//! Three layers lie over each other: the *committed* dnode and tree, the *frozen* generation
//! that is being synced, and the *open* one that transactions change. A generation says which
//! blocks were written and which freed, and how the dnode looks after it. Reading looks from the
//! top down.

use super::ranges::Ranges;
use cenote_base::rt::{RwLock, RwLockReadGuard, RwLockWriteGuard, ranks};
use cenote_base::{ObjectId, Txg};
use cenote_cache::Block;
use cenote_io::{CompressedForm, StoredForm};
use cenote_ondisk::{BlockPointer, Dnode};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A block written in a generation.
#[derive(Clone, Debug)]
pub(crate) enum Dirty {
    /// Its new contents.
    Contents(Block),
    /// Its new contents, and what they are compressed to.
    Compressed(Box<Compressed>),
    /// Where its new contents are already: it was synced or cloned.
    Pointer(Box<BlockPointer>),
}

/// Contents in already compressed form.
#[derive(Clone, Debug)]
pub(crate) struct Compressed {
    pub(crate) contents: Block,
    pub(crate) form: CompressedForm,
}

impl Compressed {
    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> u64 {
        (self.contents.len() + self.form.bytes.len()) as u64
    }
}

/// What a generation does to the spill block.
#[derive(Clone, Debug, Default)]
pub(crate) enum DirtySpill {
    #[default]
    Unchanged,
    Removed,
    Contents(Block),
}

/// The changes of one transaction group to one object.
#[derive(Debug)]
pub(crate) struct Generation {
    pub(crate) txg: Txg,
    /// The dnode after the changes; `None` if the object was freed. Its pointers, levels and
    /// space are those of the committed tree, which sync brings up to date.
    pub(crate) dnode: Option<Arc<Dnode>>,
    /// The object was freed, and perhaps created again: nothing below shows through.
    pub(crate) is_replaced: bool,
    pub(crate) blocks: BTreeMap<u64, Dirty>,
    /// Blocks freed; those in `blocks` were written afterwards.
    pub(crate) freed: Ranges,
    pub(crate) spill: DirtySpill,
    /// Of blocks that are stored bytes and no contents, how they were made; the spill block has
    /// the highest number.
    pub(crate) forms: BTreeMap<u64, StoredForm>,
    /// Bytes accounted as dirty.
    pub(crate) dirty_bytes: u64,
    /// Those among them that are beside the blocks: bonus buffer and spill block.
    pub(crate) beside_bytes: u64,
}

/// Memory that a generation takes beside its blocks: dnode, maps, lists; rounded up.
pub(crate) const GENERATION_BYTES: u64 = 1024;

impl Generation {
    pub(crate) fn new(txg: Txg, dnode: Option<Arc<Dnode>>) -> Self {
        Self {
            txg,
            dnode,
            is_replaced: false,
            blocks: BTreeMap::new(),
            freed: Ranges::default(),
            spill: DirtySpill::Unchanged,
            forms: BTreeMap::new(),
            dirty_bytes: GENERATION_BYTES,
            beside_bytes: 0,
        }
    }

    /// Bytes of the bonus buffer and the spill block as they are now.
    pub(crate) fn bytes_beside(&self) -> u64 {
        let spill = match &self.spill {
            DirtySpill::Contents(contents) => contents.len(),
            DirtySpill::Unchanged | DirtySpill::Removed => 0,
        };
        let bonus = self.dnode.as_ref().map_or(0, |dnode| dnode.bonus.len());
        (spill + bonus) as u64
    }

    fn hides(&self, block: u64) -> bool {
        self.is_replaced || self.freed.contains(block)
    }
}

/// Where a block's newest contents are.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// In memory.
    Contents(Block),
    /// Behind this pointer.
    Pointer(Box<BlockPointer>),
    /// Nowhere: it is a hole.
    Hole,
    /// In the committed tree of this dnode.
    Committed(Arc<Dnode>),
}

impl Place {
    /// Whether the block is still where it was.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Contents(one), Self::Contents(two)) => Arc::ptr_eq(one, two),
            (Self::Pointer(one), Self::Pointer(two)) => one == two,
            (Self::Hole, Self::Hole) => true,
            (Self::Committed(one), Self::Committed(two)) => Arc::ptr_eq(one, two),
            _ => false,
        }
    }
}

/// Entries of [`Changes`].
const CHANGES_MAX: usize = 16;

/// Where contents changed lately, for readers that read one version in several steps.
///
/// Each entry has the number of a change and its first byte, and stands for the changes before it
/// that began at or behind that byte: numbers and bytes grow from entry to entry. Where there are
/// too many, the two oldest become one that claims more than was changed.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    count: u64,
    lowest: VecDeque<(u64, u64)>,
}

impl Changes {
    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Notes a change of bytes from `offset` on.
    pub(crate) fn note(&mut self, offset: u64) {
        self.count += 1;
        while self.lowest.back().is_some_and(|last| last.1 >= offset) {
            self.lowest.pop_back();
        }
        self.lowest.push_back((self.count, offset));
        if self.lowest.len() > CHANGES_MAX
            && let Some((_, first)) = self.lowest.pop_front()
            && let Some(next) = self.lowest.front_mut()
        {
            next.1 = first;
        }
    }

    /// The first byte that changed after there were `count` changes; [`u64::MAX`] if none did.
    pub(crate) fn lowest_since(&self, count: u64) -> u64 {
        let mut later = self.lowest.iter().filter(|(number, _)| *number > count);
        later.next().map_or(u64::MAX, |(_, offset)| *offset)
    }
}

/// The layers of one object.
#[derive(Debug, Default)]
pub(crate) struct LiveState {
    /// Changes of contents since the object is in memory.
    pub(crate) changes: Changes,
    pub(crate) committed: Option<Arc<Dnode>>,
    pub(crate) frozen: Option<Generation>,
    pub(crate) open: Option<Generation>,
}

impl LiveState {
    /// The newest dnode; `None` if the object is free.
    pub(crate) fn dnode(&self) -> Option<&Arc<Dnode>> {
        match (&self.open, &self.frozen) {
            (Some(open), _) => open.dnode.as_ref(),
            (None, Some(frozen)) => frozen.dnode.as_ref(),
            (None, None) => self.committed.as_ref(),
        }
    }

    /// Both generations, the newer first.
    pub(crate) fn generations(&self) -> impl Iterator<Item = &Generation> {
        self.open.iter().chain(self.frozen.iter())
    }

    /// Where `block` is.
    pub(crate) fn find(&self, block: u64) -> Place {
        for generation in self.generations() {
            match generation.blocks.get(&block) {
                Some(Dirty::Contents(contents)) => return Place::Contents(Arc::clone(contents)),
                Some(Dirty::Compressed(both)) => {
                    return Place::Contents(Arc::clone(&both.contents));
                }
                Some(Dirty::Pointer(pointer)) if pointer.is_hole() => return Place::Hole,
                Some(Dirty::Pointer(pointer)) => return Place::Pointer(pointer.clone()),
                None if generation.hides(block) => return Place::Hole,
                None => {}
            }
        }
        match &self.committed {
            Some(dnode) => Place::Committed(Arc::clone(dnode)),
            None => Place::Hole,
        }
    }

    /// Where the spill block is.
    fn find_spill(&self) -> Place {
        for generation in self.generations() {
            match &generation.spill {
                DirtySpill::Contents(contents) => return Place::Contents(Arc::clone(contents)),
                DirtySpill::Removed => return Place::Hole,
                DirtySpill::Unchanged if generation.is_replaced => return Place::Hole,
                DirtySpill::Unchanged => {}
            }
        }
        match &self.committed {
            Some(dnode) => Place::Committed(Arc::clone(dnode)),
            None => Place::Hole,
        }
    }

    /// Whether the committed tree alone answers for all of `[start, end)`.
    pub(crate) fn is_committed(&self, start: u64, end: u64) -> bool {
        self.committed.is_some()
            && self.generations().all(|generation| {
                !generation.is_replaced
                    && !generation.freed.touches(start, end)
                    && generation.blocks.range(start..end).next().is_none()
            })
    }

    /// The next block from `block` on where some generation says something.
    pub(crate) fn next_change(&self, block: u64) -> Option<u64> {
        let next = |generation: &Generation| {
            let written = generation.blocks.range(block..).next();
            let freed = match generation.freed.contains(block) {
                true => Some(block),
                false => generation.freed.next_start(block),
            };
            [written.map(|(id, _)| *id), freed]
                .into_iter()
                .flatten()
                .min()
        };
        self.generations().filter_map(next).min()
    }

    /// Where a committed block from `block` on may show: the end of what hides it.
    pub(crate) fn shows_from(&self, block: u64) -> Option<u64> {
        let mut at = block;
        loop {
            let mut moved = false;
            for generation in self.generations() {
                if generation.is_replaced {
                    return None;
                }
                if let Some((_, end)) = generation.freed.find(at) {
                    (at, moved) = (end, true);
                }
            }
            if !moved {
                return self.committed.is_some().then_some(at);
            }
        }
    }

    /// The next block from `block` on that a generation wrote and that is no hole now.
    pub(crate) fn next_written(&self, block: u64) -> Option<u64> {
        let next = |generation: &Generation| {
            let mut written = generation.blocks.range(block..).map(|(id, _)| *id);
            written.find(|id| !matches!(self.find(*id), Place::Hole))
        };
        self.generations().filter_map(next).min()
    }

    /// Whether syncing will change the space that the object takes.
    pub(crate) fn moves_space(&self) -> bool {
        self.generations().any(|generation| {
            let has_spill = !matches!(generation.spill, DirtySpill::Unchanged);
            has_spill || !generation.blocks.is_empty() || !generation.freed.is_empty()
        })
    }

    /// Whether all is committed.
    pub(crate) fn is_clean(&self) -> bool {
        self.frozen.is_none() && self.open.is_none()
    }

    /// The generation of `txg` to be changed, and whether it is new.
    ///
    /// An older open generation belongs to a group that was frozen meanwhile.
    pub(crate) fn generation(&mut self, txg: Txg) -> (&mut Generation, bool) {
        if let Some(open) = &self.open
            && open.txg != txg
        {
            assert!(open.txg < txg, "a transaction is in the open group");
            assert!(self.frozen.is_none(), "the group before was synced");
            self.frozen = self.open.take();
        }
        let is_new = self.open.is_none();
        let dnode = self.dnode().cloned();
        let open = self.open.get_or_insert_with(|| Generation::new(txg, dnode));
        (open, is_new)
    }

    /// Freezes the generation of `txg` for syncing, if it is not yet.
    pub(crate) fn freeze(&mut self, txg: Txg) {
        if self.open.as_ref().is_some_and(|open| open.txg == txg) {
            assert!(self.frozen.is_none(), "one group is synced at a time");
            self.frozen = self.open.take();
        }
    }
}

/// An object of a writable object set that is in use or has changes.
#[derive(Debug)]
pub(crate) struct LiveObject {
    pub(crate) id: ObjectId,
    /// What is dirty of its contents is not to stay in the cache.
    pub(crate) is_passing: AtomicBool,
    state: RwLock<LiveState, ranks::LiveObject>,
}

impl LiveObject {
    pub(crate) fn new(id: ObjectId, committed: Option<Arc<Dnode>>) -> Arc<Self> {
        let state = LiveState {
            committed,
            ..LiveState::default()
        };
        Arc::new(Self {
            id,
            is_passing: AtomicBool::new(false),
            state: RwLock::new(state),
        })
    }

    /// Calls `look` with the place of a block. Calls it again if it failed and the block has moved
    /// meanwhile: the first place may have been freed and overwritten.
    pub(crate) fn look<T, E>(
        &self,
        block: u64,
        look: impl Fn(&Place) -> Result<T, E>,
    ) -> Result<T, E> {
        self.look_by(|state| state.find(block), look)
    }

    /// As [`Self::look`], of the spill block.
    pub(crate) fn look_at_spill<T, E>(
        &self,
        look: impl Fn(&Place) -> Result<T, E>,
    ) -> Result<T, E> {
        self.look_by(LiveState::find_spill, look)
    }

    fn look_by<T, E>(
        &self,
        find: impl Fn(&LiveState) -> Place,
        look: impl Fn(&Place) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut place = find(&self.read());
        loop {
            let found = look(&place);
            if found.is_ok() {
                return found;
            }
            let now = find(&self.read());
            if place.is_same(&now) {
                return found;
            }
            place = now;
        }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, LiveState> {
        self.state.read()
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, LiveState> {
        self.state.write()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compared with a list of all changes: an answer may be too low, and never too high; while
    /// there are few entries it is exact.
    #[test]
    fn the_lowest_change_is_never_missed() {
        let mut state = 7_u64;
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state >> 40
        };
        for limit in [4, 1000] {
            let (mut changes, mut all) = (Changes::default(), Vec::new());
            for _ in 0..500 {
                let offset = random() % limit;
                changes.note(offset);
                all.push(offset);
                assert!(changes.lowest.len() <= CHANGES_MAX);
                let since = random() % (all.len() as u64 + 1);
                let later = &all[usize::try_from(since).expect("small")..];
                let exact = later.iter().copied().min().unwrap_or(u64::MAX);
                let found = changes.lowest_since(since);
                assert!(found <= exact, "{found} {exact}");
                assert!(found == exact || limit > CHANGES_MAX as u64);
            }
        }
    }

    /// A log that is appended to does not change before its old end.
    #[test]
    fn a_growing_file_changes_at_its_end() {
        let mut changes = Changes::default();
        for end in 100..200 {
            let before = changes.count();
            changes.note(end);
            assert_eq!(changes.lowest_since(before), end);
        }
        assert_eq!(changes.lowest_since(0), 100);
        assert_eq!(changes.lowest_since(changes.count()), u64::MAX);
    }
}
