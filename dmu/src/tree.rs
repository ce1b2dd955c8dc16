//! Walking down a block tree from the dnode to one block.

use crate::error::DmuError;
use crate::live::{LiveObject, Place};
use crate::memo::Place as MemoPlace;
use crate::object::Object;
use cenote_base::{BlockId, Bookmark, Level};
use cenote_cache::{Asked, Block};
use cenote_io::ReadContext;
use cenote_ondisk::block_pointer::BLOCK_POINTER_SIZE;
use cenote_ondisk::{BlockPointer, DecodeError, Dnode, ObjectType};
use std::sync::Arc;

/// Steps of one search: a tree of 7 levels with true fill counts needs at most 1024 at each.
const STEPS_MAX: u64 = 1 << 18;

/// What to look for with [`Object::next_block`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Find {
    Data,
    Hole,
}

impl Object {
    pub(crate) fn bookmark(&self, level: u8, block: BlockId) -> Bookmark {
        let (objset, object) = (self.set().id(), self.id());
        Bookmark {
            objset,
            object,
            level: Level(level),
            block,
        }
    }

    /// Refuses a pointer that contradicts its place in the tree.
    pub(crate) fn check_place(
        &self,
        pointer: &BlockPointer,
        level: u8,
        block: BlockId,
    ) -> Result<(), DmuError> {
        if pointer.is_hole() || pointer.is_redacted() {
            return Ok(());
        }
        let bad = |problem| DmuError::BadTree {
            bookmark: self.bookmark(level, block),
            problem,
        };
        if pointer.level() != Level(level) {
            return Err(bad("its pointer is of another level"));
        }
        let size = match level {
            0 => self.dnode().data_block_size,
            _ => self.dnode().indirect_block_size(),
        };
        if pointer.logical_size() != size {
            return Err(bad("its size is not that of the object's blocks"));
        }
        Ok(())
    }

    /// Reads the block behind a pointer that is no hole.
    pub(crate) fn read_pointer(
        &self,
        pointer: &BlockPointer,
        level: u8,
        block: BlockId,
    ) -> Result<Block, DmuError> {
        self.read_asked(pointer, level, block, Asked::First)
    }

    /// The same, where the reader may have had it fetched before.
    pub(crate) fn read_asked(
        &self,
        pointer: &BlockPointer,
        level: u8,
        block: BlockId,
        asked: Asked,
    ) -> Result<Block, DmuError> {
        self.check_place(pointer, level, block)?;
        let bookmark = self.bookmark(level, block);
        let keys = self.set().keys().map(AsRef::as_ref);
        let context = ReadContext { bookmark, keys };
        let retention = self.retention(level);
        let cache = self.set().cache();
        let contents = cache.read_asked(pointer, context, retention, asked)?;
        if contents.len() as u64 != pointer.logical_size() {
            // Two pointers to one address that disagree about its size meet in the cache.
            let problem = "another pointer to the same address gives it another size";
            return Err(DmuError::BadTree { bookmark, problem });
        }
        Ok(contents)
    }

    /// The object as it is on disk: itself, unless it is of a writable set.
    fn on_disk(&self) -> Option<Self> {
        match &self.live {
            None => Some(self.clone()),
            Some(live) => live
                .read()
                .committed
                .clone()
                .map(|dnode| self.committed(dnode)),
        }
    }

    /// The pointer to block `block` of `level`; [`BlockPointer::HOLE`] where the tree ends above.
    ///
    /// It is that of the tree on disk.
    pub fn block_pointer(&self, level: u8, block: BlockId) -> Result<BlockPointer, DmuError> {
        if self.live.is_some() {
            let on_disk = self.on_disk();
            return on_disk.map_or(Ok(BlockPointer::HOLE), |on_disk| {
                on_disk.block_pointer(level, block)
            });
        }
        let (pointer, at_level) = self.descend(level, block)?;
        if at_level > level || pointer.is_hole() {
            return Ok(if at_level == level {
                pointer
            } else {
                BlockPointer::HOLE
            });
        }
        self.check_place(&pointer, level, block)?;
        Ok(pointer)
    }

    /// Walks down to `level`, or to the hole that stops the walk above it.
    fn descend(&self, level: u8, block: BlockId) -> Result<(BlockPointer, u8), DmuError> {
        let dnode = self.dnode();
        if level >= dnode.levels {
            return Ok((BlockPointer::HOLE, dnode.levels));
        }
        let top = dnode.levels - 1;
        let Some(index) = dnode.top_index(level, block) else {
            return Ok((BlockPointer::HOLE, dnode.levels));
        };
        let mut pointer = dnode.block_pointers[index];
        let mut at_level = top;
        let fanout = dnode.indirect_fanout_shift();
        while at_level > level && !pointer.is_hole() {
            let shift = |levels: u8| fanout * u32::from(levels);
            let id = block.0.checked_shr(shift(at_level - level)).unwrap_or(0);
            let indirect = self.read_pointer(&pointer, at_level, BlockId(id))?;
            let entry = block
                .0
                .checked_shr(shift(at_level - level - 1))
                .unwrap_or(0);
            pointer = entry_of(&indirect, entry & ((1 << fanout) - 1));
            at_level -= 1;
        }
        Ok((pointer, at_level))
    }

    /// The indirect block of level 1 above the data blocks from `block << fanout` on, of an
    /// object with one; `None` in a hole. Answered from memory where it was wanted lately.
    fn lowest_indirect(&self, block: u64) -> Result<Option<Block>, DmuError> {
        let place = self.memo_place(block);
        let memo = &self.set().memo;
        if let Some(found) = place.and_then(|place| memo.indirect(place)) {
            return Ok(Some(found));
        }
        let parent = self.block_pointer(1, BlockId(block))?;
        if parent.is_hole() {
            return Ok(None);
        }
        let indirect = self.read_pointer(&parent, 1, BlockId(block))?;
        if let Some(place) = place {
            memo.note_indirect(place, &indirect);
        }
        Ok(Some(indirect))
    }

    /// Where the memo has the indirect block `block` of level 1; `None` if the tree has none such.
    fn memo_place(&self, block: u64) -> Option<MemoPlace<'_>> {
        let index = self.dnode().top_index(1, BlockId(block))?;
        Some(MemoPlace {
            object: self.id(),
            block,
            top: &self.dnode().block_pointers[index],
        })
    }

    /// Data block `block` as it is on disk; `None` for a hole. Answered from memory where it was
    /// wanted lately.
    pub(crate) fn committed_block(&self, block: BlockId) -> Result<Option<Block>, DmuError> {
        if block > self.dnode().block_id_max {
            return Ok(None);
        }
        let fanout = self.dnode().indirect_fanout_shift();
        let place = match self.dnode().levels {
            1 => None,
            _ => self.memo_place(block.0 >> fanout),
        };
        let count = 1_usize << fanout;
        let index = block.0 as usize & (count - 1);
        let memo = &self.set().memo;
        if let Some(found) = place.and_then(|place| memo.data(place, index)) {
            let is_metadata = self.dnode().object_type.is_metadata();
            self.set().cache().note_hit(is_metadata);
            return Ok(Some(found));
        }
        let pointer = self.data_pointer(block)?;
        if pointer.is_hole() {
            return Ok(None);
        }
        let found = self.read_pointer(&pointer, 0, block)?;
        // An embedded block has no other owner that would keep it.
        if let Some(place) = place.filter(|_| !pointer.is_embedded()) {
            memo.note_data(place, index, count, &found);
        }
        Ok(Some(found))
    }

    /// The pointer to data block `block`; [`BlockPointer::HOLE`] where there is none.
    pub(crate) fn data_pointer(&self, block: BlockId) -> Result<BlockPointer, DmuError> {
        if self.dnode().levels == 1 {
            return self.block_pointer(0, block);
        }
        let fanout = self.dnode().indirect_fanout_shift();
        let Some(indirect) = self.lowest_indirect(block.0 >> fanout)? else {
            return Ok(BlockPointer::HOLE);
        };
        let pointer = entry_of(&indirect, block.0 & ((1 << fanout) - 1));
        self.check_place(&pointer, 0, block)?;
        Ok(pointer)
    }

    /// The pointers to the data blocks `first..=last`, holes included.
    pub(crate) fn data_pointers(
        &self,
        first: BlockId,
        last: BlockId,
    ) -> Result<Vec<BlockPointer>, DmuError> {
        assert!(first <= last);
        let mut pointers = Vec::with_capacity(usize::try_from(last.0 - first.0 + 1).unwrap_or(0));
        if self.dnode().levels == 1 {
            for id in first.0..=last.0 {
                pointers.push(self.block_pointer(0, BlockId(id))?);
            }
            return Ok(pointers);
        }
        let fanout = self.dnode().indirect_fanout_shift();
        let mut id = first.0;
        while id <= last.0 {
            let end = last.0.min(id | ((1 << fanout) - 1));
            let Some(indirect) = self.lowest_indirect(id >> fanout)? else {
                pointers.extend((id..=end).map(|_| BlockPointer::HOLE));
                id = end + 1;
                continue;
            };
            for child in id..=end {
                let pointer = entry_of(&indirect, child & ((1 << fanout) - 1));
                self.check_place(&pointer, 0, BlockId(child))?;
                pointers.push(pointer);
            }
            id = end + 1;
        }
        Ok(pointers)
    }

    /// The first data block from `from` on that is not a hole.
    pub fn next_data_block(&self, from: BlockId) -> Result<Option<BlockId>, DmuError> {
        let Some(live) = &self.live else {
            return self.next_block(from, Find::Data);
        };
        let written = live.read().next_written(from.0);
        let mut at = from.0;
        let committed = loop {
            let (shows, dnode) = {
                let state = live.read();
                (state.shows_from(at), state.committed.clone())
            };
            let (Some(shows), Some(dnode)) = (shows, dnode) else {
                break None;
            };
            let on_disk = self.committed(Arc::clone(&dnode));
            let found = on_disk.next_block(BlockId(shows), Find::Data);
            if found.is_err() && !is_committed(live, &dnode) {
                continue;
            }
            let Some(found) = found? else {
                break None;
            };
            if written.is_some_and(|written| written <= found.0) {
                break None;
            }
            match live.read().find(found.0) {
                Place::Hole => at = found.0 + 1,
                _ => break Some(found.0),
            }
        };
        Ok([written, committed]
            .into_iter()
            .flatten()
            .min()
            .map(BlockId))
    }

    /// The first data block from `from` on that is a hole; one behind the last if none is.
    pub fn next_hole_block(&self, from: BlockId) -> Result<BlockId, DmuError> {
        let end = BlockId(self.newest_dnode().block_id_max.0.saturating_add(1));
        if let Some(live) = &self.live {
            return self.next_live_hole(live, from, end);
        }
        Ok(self
            .next_block(from, Find::Hole)?
            .unwrap_or(end)
            .min(end.max(from)))
    }

    fn next_live_hole(
        &self,
        live: &LiveObject,
        from: BlockId,
        end: BlockId,
    ) -> Result<BlockId, DmuError> {
        let mut at = from;
        while at < end {
            let (place, change) = {
                let state = live.read();
                (state.find(at.0), state.next_change(at.0 + 1))
            };
            at = match place {
                Place::Hole => return Ok(at),
                Place::Contents(_) | Place::Pointer(_) => BlockId(at.0 + 1),
                Place::Committed(dnode) => {
                    let hole = self.committed(Arc::clone(&dnode)).next_hole_block(at);
                    if hole.is_err() && !is_committed(live, &dnode) {
                        continue;
                    }
                    let hole = hole?;
                    if hole <= at {
                        return Ok(at);
                    }
                    hole.min(BlockId(change.unwrap_or(u64::MAX)))
                }
            };
        }
        Ok(end.max(from))
    }

    /// Steps forward over whole subtrees: below a hole there is no data, below a full indirect
    /// block no hole. Each step moves on by at least one block.
    ///
    /// Fill counts say what is empty or full, as in OpenZFS. In a tree with correct counts the
    /// search takes a few steps at each level. Wrong counts could make it practically endless, so
    /// the steps are limited. At the limit a search for data fails, and one for a hole finds the
    /// end of the object.
    fn next_block(&self, from: BlockId, find: Find) -> Result<Option<BlockId>, DmuError> {
        let dnode = self.dnode();
        let mut block = from.0;
        for _ in 0..STEPS_MAX {
            if block > dnode.block_id_max.0 {
                return Ok(None);
            }
            let (content, at_level) = self.probe(BlockId(block))?;
            if at_level == dnode.levels {
                // Behind the last pointer of the dnode.
                return Ok((find == Find::Hole).then_some(BlockId(block)));
            }
            if content == find {
                return Ok(Some(BlockId(block)));
            }
            let span = dnode.indirect_fanout_shift() * u32::from(at_level);
            let next = block.checked_shr(span).unwrap_or(0).saturating_add(1);
            let Some(next) = next.checked_mul(1_u64.checked_shl(span).unwrap_or(0)) else {
                return Ok(None);
            };
            if next <= block {
                return Ok(None);
            }
            block = next;
        }
        match find {
            Find::Hole => Ok(None),
            Find::Data => Err(self.malformed(DecodeError::Inconsistent {
                structure: "block tree",
                problem: "its fill counts promise data where there is none",
            })),
        }
    }

    /// What there is at a block of level 0, and the highest level at which that goes for all
    /// blocks below; the dnode's levels behind its last pointer.
    fn probe(&self, block: BlockId) -> Result<(Find, u8), DmuError> {
        let dnode = self.dnode();
        let mut level = dnode.levels - 1;
        let Some(index) = dnode.top_index(0, block) else {
            return Ok((Find::Hole, dnode.levels));
        };
        let mut pointer = dnode.block_pointers[index];
        let fanout = dnode.indirect_fanout_shift();
        // Blocks of dnodes count dnodes, of which there are many to a block.
        let counts_blocks = dnode.object_type != ObjectType::DNODE;
        loop {
            let below = 1_u64.checked_shl(fanout * u32::from(level)).unwrap_or(0);
            match (pointer.is_hole(), level, pointer.fill()) {
                (true, ..) | (false, 1.., 0) => return Ok((Find::Hole, level)),
                (false, 0, _) => return Ok((Find::Data, 0)),
                (_, _, fill) if counts_blocks && fill == below => return Ok((Find::Data, level)),
                _ => {}
            }
            let id = block.0.checked_shr(fanout * u32::from(level)).unwrap_or(0);
            let indirect = self.read_pointer(&pointer, level, BlockId(id))?;
            level -= 1;
            let entry = block.0.checked_shr(fanout * u32::from(level)).unwrap_or(0);
            pointer = entry_of(&indirect, entry & ((1 << fanout) - 1));
        }
    }
}

/// Whether the tree on disk is still that of `dnode`: if not, its blocks may be gone.
fn is_committed(live: &LiveObject, dnode: &Arc<Dnode>) -> bool {
    let state = live.read();
    let committed = state.committed.as_ref();
    committed.is_some_and(|committed| Arc::ptr_eq(committed, dnode))
}

/// Entry `index` of an indirect block; `index` is masked to the block's fanout.
pub(crate) fn entry_of(indirect: &[u8], index: u64) -> BlockPointer {
    let start = usize::try_from(index).expect("below 1024") * BLOCK_POINTER_SIZE;
    BlockPointer::decode(&indirect[start..]).expect("an indirect block holds its fanout")
}
