//! Changing objects: in memory, in a transaction.
//!
//! Whole blocks are taken as they come; a part of a block is written into a copy of it. The
//! callers order changes to one object among each other: here each block changes atomically, and
//! no more.

use crate::error::DmuError;
use crate::live::{
    Compressed, Dirty, DirtySpill, GENERATION_BYTES, Generation, LiveObject, LiveSet, LiveState,
    Place,
};
use crate::new_object::{TreeShape, bonus_fits};
use crate::object::Object;
use crate::object_set::{ObjectSet, SpecialObject};
use crate::txg::Transaction;
use cenote_base::rt::RwLockWriteGuard;
use cenote_base::{BLOCK_SIZE_MAX, BlockId, SECTOR_SIZE, Txg};
use cenote_cache::{Block, BlockBuffer};
use cenote_io::{CompressedForm, StoredForm};
use cenote_ondisk::dnode::{DNODE_SLOTS_MAX, FLAG_SPILL_BLKPTR};
use cenote_ondisk::{BlockPointer, Dnode, ObjectType};
use std::ops::Range;
use std::sync::Arc;

/// The largest spill block (format/2b 2).
const SPILL_SIZE_MAX: usize = 128 << 10;

/// Blocks that [`Object::free_some`] frees at once: 64 indirect blocks of the usual size.
const FREE_BLOCKS_MAX: u64 = 64 << 10;

/// What a cloned block counts for in the throttle: its pointer, and what counting it takes.
const CLONED_BLOCK_BYTES: u64 = 512;

const TOO_FAR: &str = "a write would reach beyond the largest offset";

/// What the freeing of a block counts for in the throttle.
const FREED_BLOCK_BYTES: u64 = 256;

impl Object {
    fn bad_change(&self, problem: &'static str) -> DmuError {
        DmuError::BadChange {
            objset: self.set().id(),
            object: self.id(),
            problem,
        }
    }

    fn writable(&self) -> Result<(&LiveSet, &Arc<LiveObject>), DmuError> {
        match (&self.set().live, &self.live) {
            (Some(set), Some(live)) => Ok((set, live)),
            _ => Err(DmuError::ReadOnly {
                objset: self.set().id(),
            }),
        }
    }

    /// Changes the open generation. `change` gets it with the dnode, which exists.
    fn change<R>(
        &self,
        tx: &Transaction,
        state: &mut LiveState,
        change: impl FnOnce(&mut Generation) -> R,
    ) -> Result<R, DmuError> {
        let (_, live) = self.writable()?;
        if state.dnode().is_none() {
            return Err(DmuError::NoSuchObject {
                objset: self.set().id(),
                object: self.id(),
            });
        }
        if SpecialObject::from_id(self.id()).is_some() && !tx.is_syncing() {
            return Err(self.bad_change("what owners use is counted when a group is written"));
        }
        let generation = self.set().open_generation(tx, (live, state))?;
        Ok(change(generation))
    }

    /// Writes `data` at `offset`. The object grows as far as needed.
    ///
    /// An object whose block size is no power of two has one block: the caller enlarges that
    /// first.
    pub fn write(&self, tx: &Transaction, offset: u64, data: &[u8]) -> Result<(), DmuError> {
        let size = self.newest_dnode().data_block_size;
        let mut data = data;
        let mut at = offset;
        while !data.is_empty() {
            let (block, start) = (BlockId(at / size), at % size);
            let room = usize::try_from(size - start).expect("at most 16 MiB");
            let (piece, rest) = data.split_at(room.min(data.len()));
            if piece.len() as u64 == size {
                self.write_block(tx, block, Arc::new(BlockBuffer::copy_of(piece)))?;
            } else {
                let start = usize::try_from(start).expect("at most 16 MiB");
                let range = start..start + piece.len();
                self.write_part_from(tx, (block, range.clone()), |contents| {
                    contents[range].copy_from_slice(piece);
                })?;
            }
            at = at
                .checked_add(piece.len() as u64)
                .ok_or_else(|| self.bad_change(TOO_FAR))?;
            data = rest;
        }
        Ok(())
    }

    /// How many of these blocks have contents that are written with the group `txg`. Writing them
    /// again before that takes no more space.
    pub fn count_written_in(&self, txg: Txg, blocks: Range<u64>) -> u64 {
        let Some(live) = &self.live else {
            return 0;
        };
        let state = live.read();
        let open = state.open.as_ref().filter(|open| open.txg == txg);
        let has_contents =
            |dirty: &Dirty| matches!(dirty, Dirty::Contents(_) | Dirty::Compressed(_));
        open.map_or(0, |open| {
            let written = open.blocks.range(blocks);
            written.filter(|(_, dirty)| has_contents(dirty)).count() as u64
        })
    }

    /// The size of the object's blocks now, in bytes.
    pub fn block_size(&self) -> u64 {
        self.newest_dnode().data_block_size
    }

    /// Writes the first `length` bytes of `buffers`, taken one after the other, at `offset`.
    ///
    /// A buffer that is a whole block of the object, or the first bytes of one that is a hole,
    /// becomes that block: it is taken, and an empty one is left in its place. All others are
    /// copied.
    pub fn write_buffers(
        &self,
        tx: &Transaction,
        offset: u64,
        buffers: &mut [BlockBuffer],
        length: usize,
    ) -> Result<(), DmuError> {
        let size = self.newest_dnode().data_block_size;
        let (mut at, mut left) = (offset, length);
        for buffer in buffers {
            let piece = left.min(buffer.len());
            if piece == 0 {
                continue;
            }
            let is_block = at.is_multiple_of(size) && buffer.len() as u64 == size;
            let block = BlockId(at / size);
            if is_block && (piece == buffer.len() || self.is_plain_hole(block)?) {
                let mut contents = std::mem::take(buffer);
                contents[piece..].fill(0);
                self.write_block(tx, block, Arc::new(contents))?;
            } else {
                self.write(tx, at, &buffer[..piece])?;
            }
            at = at
                .checked_add(piece as u64)
                .ok_or_else(|| self.bad_change(TOO_FAR))?;
            left -= piece;
        }
        assert_eq!(left, 0, "the buffers hold as many bytes as are written");
        Ok(())
    }

    /// Whether `block` is known to be a hole, without reading. The caller must ensure that there is
    /// no other writer.
    fn is_plain_hole(&self, block: BlockId) -> Result<bool, DmuError> {
        let (_, live) = self.writable()?;
        let state = live.read();
        Ok(match state.find(block.0) {
            Place::Hole => true,
            Place::Committed(dnode) => dnode.block_id_max < block,
            Place::Contents(_) | Place::Pointer(_) => false,
        })
    }

    /// The state to write a whole block of so many bytes to.
    fn state_for_whole(
        &self,
        block: BlockId,
        size: u64,
    ) -> Result<RwLockWriteGuard<'_, LiveState>, DmuError> {
        self.check_way_to(block)?;
        let (_, live) = self.writable()?;
        let state = live.write();
        let own = state.dnode().map(|dnode| dnode.data_block_size);
        match own.is_none_or(|own| own == size) {
            true => Ok(state),
            false => Err(self.bad_change("a whole block of another size is written")),
        }
    }

    /// Writes a whole block without copying it.
    pub fn write_block(
        &self,
        tx: &Transaction,
        block: BlockId,
        contents: Block,
    ) -> Result<(), DmuError> {
        let mut state = self.state_for_whole(block, contents.len() as u64)?;
        self.put_block(tx, &mut state, (block, 0), Dirty::Contents(contents))
    }

    /// As [`Self::write_block`], for compressed contents; `form` has to expand to `contents`.
    pub fn write_compressed(
        &self,
        tx: &Transaction,
        block: BlockId,
        (contents, form): (Block, CompressedForm),
    ) -> Result<(), DmuError> {
        let mut state = self.state_for_whole(block, contents.len() as u64)?;
        let both = Box::new(Compressed { contents, form });
        self.put_block(tx, &mut state, (block, 0), Dirty::Compressed(both))
    }

    /// Writes a whole block as it is stored elsewhere. What is dirty of such an object cannot be
    /// read.
    pub fn write_stored(
        &self,
        tx: &Transaction,
        block: BlockId,
        (bytes, form): (Block, StoredForm),
    ) -> Result<(), DmuError> {
        let mut state = self.state_for_whole(block, form.logical_size)?;
        self.put_block(tx, &mut state, (block, 0), Dirty::Contents(bytes))?;
        self.change(tx, &mut state, |generation| {
            generation.forms.insert(block.0, form);
        })
    }

    /// Sets the spill block as it is stored elsewhere.
    pub fn set_stored_spill(
        &self,
        tx: &Transaction,
        (bytes, form): (Block, StoredForm),
    ) -> Result<(), DmuError> {
        self.change_dnode(tx, |dnode, dirty| self.put_spill(dnode, dirty, Some(bytes)))?;
        let (_, live) = self.writable()?;
        let mut state = live.write();
        self.change(tx, &mut state, |generation| {
            generation.forms.insert(u64::MAX, form);
        })
    }

    /// Gives the tree the shape that it has elsewhere; blocks behind its end are freed.
    pub fn set_shape(&self, tx: &Transaction, shape: TreeShape) -> Result<(), DmuError> {
        let size = self.block_size();
        if let Some(end) = shape.block_id_max.0.checked_add(1) {
            self.free_range(tx, end.saturating_mul(size), u64::MAX)?;
        }
        self.change_dnode(tx, |dnode, _| {
            dnode.levels = dnode.levels.max(shape.levels);
            dnode.block_id_max = shape.block_id_max;
            Ok(())
        })
    }

    /// Makes `block` what `pointer` points to: contents that are on disk already.
    pub fn set_block_pointer(
        &self,
        tx: &Transaction,
        block: BlockId,
        pointer: BlockPointer,
    ) -> Result<(), DmuError> {
        self.check_way_to(block)?;
        let (_, live) = self.writable()?;
        let mut state = live.write();
        let size = state.dnode().map(|dnode| dnode.data_block_size);
        if !pointer.is_hole() && size.is_some_and(|size| size != pointer.logical_size()) {
            return Err(self.bad_change("a block of another size is cloned"));
        }
        let dirty = Dirty::Pointer(Box::new(pointer));
        self.put_block(tx, &mut state, (block, 0), dirty)
    }

    /// Puts a block that differs from the one before from byte `start` of it on.
    fn put_block(
        &self,
        tx: &Transaction,
        state: &mut LiveState,
        (block, start): (BlockId, usize),
        dirty: Dirty,
    ) -> Result<(), DmuError> {
        let (set, live) = self.writable()?;
        let size = state.dnode().map_or(0, |dnode| dnode.data_block_size);
        let Some(begin) = block.0.checked_mul(size) else {
            return Err(self.bad_change(TOO_FAR));
        };
        let bytes = bytes_of(&dirty);
        let (replaced, is_data) = self.change(tx, state, |generation| {
            let dnode = generation.dnode.as_mut().expect("the object exists");
            let is_data = !dnode.object_type.is_metadata();
            if dnode.block_id_max < block {
                Arc::make_mut(dnode).block_id_max = block;
            }
            generation.forms.remove(&block.0);
            if let Some(undo) = &mut *tx.undo_log() {
                undo.block(live, block.0, generation.blocks.get(&block.0));
            }
            let replaced = generation.blocks.insert(block.0, dirty);
            let replaced = replaced.as_ref().map_or(0, bytes_of);
            generation.dirty_bytes = generation.dirty_bytes + bytes - replaced;
            (replaced, is_data)
        })?;
        state.changes.note(begin.saturating_add(start as u64));
        match is_data {
            true => set.add_dirty_data(bytes, bytes.saturating_sub(replaced)),
            false => set.add_dirty_bytes(bytes),
        }
        set.remove_dirty_bytes(replaced);
        Ok(())
    }

    /// Changes a part of a block: in place if it is dirty already, else in a copy.
    pub fn write_part(
        &self,
        tx: &Transaction,
        block: BlockId,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<(), DmuError> {
        self.write_part_from(tx, (block, 0..usize::MAX), change)
    }

    /// As [`Self::write_part`] of something that changes no bytes but these.
    pub(crate) fn write_part_from(
        &self,
        tx: &Transaction,
        (block, range): (BlockId, Range<usize>),
        change: impl FnOnce(&mut [u8]),
    ) -> Result<(), DmuError> {
        let (_, live) = self.writable()?;
        let mut read = None;
        loop {
            let mut state = live.write();
            let place = state.find(block.0);
            let size = state.dnode().map_or(0, |dnode| dnode.data_block_size);
            let is_open = state.open.as_ref().is_some_and(|open| open.txg == tx.txg());
            if is_open
                && let Some(open) = &mut state.open
                && matches!(open.blocks.get(&block.0), Some(Dirty::Contents(_)))
            {
                drop(place);
                self.set().open_generation(tx, (live, &mut state))?;
                let open = state.open.as_mut().expect("it is open");
                let dirty = open.blocks.get_mut(&block.0).expect("it was found");
                if let Some(undo) = &mut *tx.undo_log() {
                    undo.bytes(live, (block.0, &range), dirty);
                }
                let Dirty::Contents(contents) = dirty else {
                    unreachable!("it was found to be contents");
                };
                change(&mut Arc::make_mut(contents)[..]);
                let begin = block.0.saturating_mul(size);
                state.changes.note(begin.saturating_add(range.start as u64));
                return Ok(());
            }
            let size = usize::try_from(size).expect("at most 16 MiB");
            let mut contents = match (&place, read.take()) {
                (Place::Contents(contents), _) => BlockBuffer::clone(contents),
                (Place::Hole, _) => BlockBuffer::zeroed(size),
                (_, Some((read_at, contents))) if place.is_same(&read_at) => contents,
                _ => {
                    drop(state);
                    let contents = self.block(block)?;
                    let contents = match contents {
                        Some(contents) => BlockBuffer::clone(&contents),
                        None => {
                            // Behind the object's last block nothing was read to know that.
                            self.check_way_to(block)?;
                            BlockBuffer::zeroed(size)
                        }
                    };
                    read = Some((place, contents));
                    continue;
                }
            };
            if contents.len() != size {
                return Err(self.bad_change("its block size changed during a write"));
            }
            change(&mut contents);
            let dirty = Dirty::Contents(Arc::new(contents));
            return self.put_block(tx, &mut state, (block, range.start), dirty);
        }
    }

    /// Makes `length` bytes from `offset` on zero; whole blocks become holes.
    ///
    /// A length of [`u64::MAX`] reaches to the end of the object, which then ends there.
    pub fn free_range(&self, tx: &Transaction, offset: u64, length: u64) -> Result<(), DmuError> {
        let dnode = self.newest_dnode();
        let size = dnode.data_block_size;
        let end = offset.saturating_add(length);
        let object_end = dnode.block_id_max.0.saturating_add(1).saturating_mul(size);
        let to_end = end >= object_end;
        let end = end.min(object_end);
        if offset >= end {
            return Ok(());
        }
        // Before anything is cleared.
        self.check_tree(
            offset / size,
            if to_end { u64::MAX } else { end.div_ceil(size) },
        )?;
        let (first, last) = (offset.div_ceil(size), end / size);
        if first > last {
            // Within one block.
            return self.zero_part(tx, BlockId(offset / size), offset % size, end % size);
        }
        if !offset.is_multiple_of(size) {
            self.zero_part(tx, BlockId(offset / size), offset % size, size)?;
        }
        if !end.is_multiple_of(size) {
            self.zero_part(tx, BlockId(end / size), 0, end % size)?;
        }
        if first < last || to_end {
            self.free_blocks(tx, first, if to_end { u64::MAX } else { last })?;
        }
        Ok(())
    }

    fn zero_part(
        &self,
        tx: &Transaction,
        block: BlockId,
        start: u64,
        end: u64,
    ) -> Result<(), DmuError> {
        let (_, live) = self.writable()?;
        let is_hole = live.look(block.0, |place| match place {
            Place::Hole => Ok(true),
            Place::Contents(_) | Place::Pointer(_) => Ok(false),
            Place::Committed(dnode) => {
                let on_disk = self.committed(Arc::clone(dnode));
                on_disk.block_pointer(0, block).map(|at| at.is_hole())
            }
        })?;
        if is_hole || start == end {
            return Ok(());
        }
        let start = usize::try_from(start).expect("at most 16 MiB");
        let end = usize::try_from(end).expect("at most 16 MiB");
        self.write_part_from(tx, (block, start..end), |contents| {
            contents[start..end].fill(0);
        })
    }

    /// Frees the blocks `[first, end)`; an end of [`u64::MAX`] cuts the object off.
    fn free_blocks(&self, tx: &Transaction, first: u64, end: u64) -> Result<(), DmuError> {
        let (set, live) = self.writable()?;
        let mut state = live.write();
        let size = state.dnode().map_or(0, |dnode| dnode.data_block_size);
        let freed_bytes = self.change(tx, &mut state, |generation| {
            let mut kept = generation.blocks.split_off(&first);
            let mut behind = kept.split_off(&end);
            generation.blocks.append(&mut behind);
            if let Some(undo) = &mut *tx.undo_log() {
                undo.freed(live, &generation.freed, first, end);
                for (block, dirty) in &kept {
                    undo.block(live, *block, Some(dirty));
                }
            }
            let bytes = kept.values().map(bytes_of).sum::<u64>();
            generation.dirty_bytes = generation.dirty_bytes + FREED_BLOCK_BYTES - bytes;
            generation.freed.insert(first, end);
            let dnode = generation.dnode.as_mut().expect("the object exists");
            if end == u64::MAX {
                let last = BlockId(first.saturating_sub(1));
                if dnode.block_id_max > last {
                    Arc::make_mut(dnode).block_id_max = last;
                }
            }
            bytes
        })?;
        state.changes.note(first.saturating_mul(size));
        drop(state);
        set.add_dirty_bytes(FREED_BLOCK_BYTES);
        set.remove_dirty_bytes(freed_bytes);
        Ok(())
    }

    /// Frees some of the object's data, from the front on; says whether any is left.
    ///
    /// A large object is emptied in steps, each in a transaction of its own, before it is freed.
    /// Freeing all its blocks at once would hold up one sync for long.
    pub fn free_some(&self, tx: &Transaction) -> Result<bool, DmuError> {
        let Some(first) = self.next_data_block(BlockId(0))? else {
            return Ok(false);
        };
        let last = self.newest_dnode().block_id_max.0;
        let end = first
            .0
            .saturating_add(FREE_BLOCKS_MAX)
            .min(last.saturating_add(1));
        self.check_tree(first.0, end)?;
        self.free_blocks(tx, first.0, end)?;
        // It costs memory and time until it is on disk, as writing does.
        let (set, live) = self.writable()?;
        let bytes = match set.is_in_memory() {
            true => 0,
            false => (end - first.0) * FREED_BLOCK_BYTES,
        };
        let mut state = live.write();
        self.change(tx, &mut state, |generation| generation.dirty_bytes += bytes)?;
        drop(state);
        set.add_dirty_bytes(bytes);
        Ok(end <= last)
    }

    fn change_dnode(
        &self,
        tx: &Transaction,
        change: impl FnOnce(&mut Dnode, &mut DirtySpill) -> Result<(), DmuError>,
    ) -> Result<(), DmuError> {
        let (set, live) = self.writable()?;
        let mut state = live.write();
        let (before, after) = self.change(tx, &mut state, |generation| {
            let dnode = generation.dnode.as_mut().expect("the object exists");
            let mut new = Dnode::clone(dnode);
            change(&mut new, &mut generation.spill)?;
            *dnode = Arc::new(new);
            let (before, after) = (generation.beside_bytes, generation.bytes_beside());
            generation.beside_bytes = after;
            generation.dirty_bytes = generation.dirty_bytes + after - before;
            Ok::<_, DmuError>((before, after))
        })??;
        drop(state);
        set.add_dirty_bytes(after);
        set.remove_dirty_bytes(before);
        Ok(())
    }

    /// Has the dnode written with the transaction's group as it is.
    pub(crate) fn touch(&self, tx: &Transaction) -> Result<(), DmuError> {
        self.change_dnode(tx, |_, _| Ok(()))
    }

    /// Replaces the bonus buffer, whose length changes with it.
    pub fn set_bonus(
        &self,
        tx: &Transaction,
        bonus_type: ObjectType,
        bonus: Vec<u8>,
    ) -> Result<(), DmuError> {
        self.change_dnode(tx, |dnode, _| {
            let has_spill = dnode.spill.is_some();
            let pointers = dnode.block_pointers.len();
            if !bonus_fits(bonus.len(), dnode.slots(), pointers, has_spill) {
                return Err(self.bad_change("the bonus buffer has no room for that much"));
            }
            (dnode.bonus_type, dnode.bonus) = (bonus_type, bonus);
            Ok(())
        })
    }

    /// Changes a part of the bonus buffer in place.
    pub fn change_bonus(
        &self,
        tx: &Transaction,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<(), DmuError> {
        self.change_dnode(tx, |dnode, _| {
            change(&mut dnode.bonus);
            Ok(())
        })
    }

    /// Sets or removes the spill block; it is padded to whole sectors.
    ///
    /// With one, the bonus buffer has 128 bytes less: shorten that first.
    pub fn set_spill(&self, tx: &Transaction, spill: Option<Vec<u8>>) -> Result<(), DmuError> {
        let spill = self.padded_spill(spill)?;
        self.change_dnode(tx, |dnode, dirty| self.put_spill(dnode, dirty, spill))
    }

    /// Replaces the bonus buffer and sets or removes the spill block, both at once.
    pub fn set_bonus_and_spill(
        &self,
        tx: &Transaction,
        bonus_type: ObjectType,
        bonus: Vec<u8>,
        spill: Option<Vec<u8>>,
    ) -> Result<(), DmuError> {
        let spill = self.padded_spill(spill)?;
        self.change_dnode(tx, |dnode, dirty| {
            (dnode.bonus_type, dnode.bonus) = (bonus_type, bonus);
            self.put_spill(dnode, dirty, spill)
        })
    }

    fn padded_spill(&self, spill: Option<Vec<u8>>) -> Result<Option<Block>, DmuError> {
        let spill = spill.map(|mut spill| {
            let sector = usize::try_from(SECTOR_SIZE).expect("512");
            spill.resize(spill.len().max(1).next_multiple_of(sector), 0);
            Arc::new(BlockBuffer::from(spill))
        });
        match spill.as_ref().map_or(0, |spill| spill.len()) > SPILL_SIZE_MAX {
            true => Err(self.bad_change("a spill block has at most 128 KiB")),
            false => Ok(spill),
        }
    }

    fn put_spill(
        &self,
        dnode: &mut Dnode,
        dirty: &mut DirtySpill,
        spill: Option<Block>,
    ) -> Result<(), DmuError> {
        let has_spill = spill.is_some();
        let pointers = dnode.block_pointers.len();
        if !bonus_fits(dnode.bonus.len(), dnode.slots(), pointers, has_spill) {
            return Err(self.bad_change("the bonus buffer leaves no room for a spill pointer"));
        }
        match spill {
            Some(contents) => {
                dnode.flags |= FLAG_SPILL_BLKPTR;
                dnode.spill.get_or_insert(BlockPointer::HOLE);
                *dirty = DirtySpill::Contents(contents);
            }
            None => {
                dnode.flags &= !FLAG_SPILL_BLKPTR;
                dnode.spill = None;
                *dirty = DirtySpill::Removed;
            }
        }
        Ok(())
    }

    /// Changes the block size of an object that has at most its first block.
    ///
    /// The block keeps its contents as far as they fit.
    pub fn set_block_size(&self, tx: &Transaction, size: u64) -> Result<(), DmuError> {
        if size == 0 || size > BLOCK_SIZE_MAX || !size.is_multiple_of(SECTOR_SIZE) {
            return Err(self.bad_change("a block has 512 bytes to 16 MiB in whole sectors"));
        }
        let (_, live) = self.writable()?;
        if live.read().dnode().map(|dnode| dnode.data_block_size) == Some(size) {
            return Ok(());
        }
        self.check_tree(0, u64::MAX)?;
        let contents = self.block(BlockId(0))?;
        if contents.is_some() {
            // Have it in the open generation, so that nothing of the old size is left below.
            let as_it_is = (BlockId(0), usize::MAX..usize::MAX);
            self.write_part_from(tx, as_it_is, |_| {})?;
        }
        drop(contents);
        let (set, live) = self.writable()?;
        let mut state = live.write();
        if state.dnode().is_some_and(|dnode| dnode.block_id_max.0 > 0) {
            return Err(self.bad_change("it has more than one block, whose size is fixed"));
        }
        let length = usize::try_from(size).expect("at most 16 MiB");
        // A smaller block loses its end; a larger one has zeros where none were read before.
        let old = state.dnode().map_or(0, |dnode| dnode.data_block_size);
        state.changes.note(size.min(old));
        let (before, after) = self.change(tx, &mut state, |generation| {
            let before = generation.dirty_bytes;
            if let Some(undo) = &mut *tx.undo_log() {
                undo.freed(live, &generation.freed, 0, u64::MAX);
                for (block, dirty) in &generation.blocks {
                    undo.block(live, *block, Some(dirty));
                }
            }
            generation.freed.insert(0, u64::MAX);
            for dirty in generation.blocks.values_mut() {
                match dirty {
                    Dirty::Contents(contents) => *contents = resized(contents, length),
                    Dirty::Compressed(both) => {
                        *dirty = Dirty::Contents(resized(&both.contents, length));
                    }
                    Dirty::Pointer(_) => {}
                }
            }
            let blocks = generation.blocks.values().map(bytes_of).sum::<u64>();
            generation.dirty_bytes = GENERATION_BYTES + generation.beside_bytes + blocks;
            let dnode = generation.dnode.as_mut().expect("the object exists");
            Arc::make_mut(dnode).data_block_size = size;
            (before, generation.dirty_bytes)
        })?;
        drop(state);
        set.add_dirty_bytes(after);
        set.remove_dirty_bytes(before);
        Ok(())
    }

    /// Sets the functions of this object's blocks; 0 inherits the dataset's.
    pub fn set_functions(
        &self,
        tx: &Transaction,
        checksum: u8,
        compression: u8,
    ) -> Result<(), DmuError> {
        self.change_dnode(tx, |dnode, _| {
            (dnode.checksum, dnode.compression) = (checksum, compression);
            Ok(())
        })
    }

    /// Changes the object's type, as when a directory of the DSL becomes a ZAP.
    pub fn set_type(&self, tx: &Transaction, object_type: ObjectType) -> Result<(), DmuError> {
        self.change_dnode(tx, |dnode, _| {
            dnode.object_type = object_type;
            Ok(())
        })
    }

    /// Changes the number of the dnode's slots. Those behind it must be free.
    pub fn set_slots(&self, tx: &Transaction, slots: usize) -> Result<(), DmuError> {
        if slots == 0 || slots > DNODE_SLOTS_MAX {
            return Err(self.bad_change("a dnode has 1 to 32 slots"));
        }
        let now = self.newest_dnode().slots();
        let _numbers = match slots > now {
            true => Some(self.set().reserve_slots(self.id(), now, slots)?),
            false => None,
        };
        self.change_dnode(tx, |dnode, _| {
            let pointers = dnode.block_pointers.len();
            if !bonus_fits(dnode.bonus.len(), slots, pointers, dnode.spill.is_some()) {
                return Err(self.bad_change("the bonus buffer needs the slots"));
            }
            dnode.extra_slots = u8::try_from(slots - 1).expect("at most 31");
            Ok(())
        })
    }

    /// Whether any byte of `[offset, offset + length)` has changes that are not on disk.
    pub fn is_dirty(&self, offset: u64, length: u64) -> bool {
        let Some(live) = &self.live else {
            return false;
        };
        let state = live.read();
        let size = state
            .dnode()
            .map_or(SECTOR_SIZE, |dnode| dnode.data_block_size);
        let first = offset / size;
        let end = offset.saturating_add(length).div_ceil(size);
        match &state.committed {
            Some(_) => length > 0 && !state.is_committed(first, end),
            None => true,
        }
    }
}

/// A copy of `contents` cut off or filled with zeros.
fn resized(contents: &[u8], length: usize) -> Block {
    let mut new = BlockBuffer::take(length);
    let kept = contents.len().min(length);
    new[..kept].copy_from_slice(&contents[..kept]);
    new[kept..].fill(0);
    Arc::new(new)
}

fn bytes_of(dirty: &Dirty) -> u64 {
    match dirty {
        Dirty::Contents(contents) => contents.len() as u64,
        Dirty::Compressed(both) => both.bytes(),
        Dirty::Pointer(_) => CLONED_BLOCK_BYTES,
    }
}

impl ObjectSet {
    /// Notes that the set, and `object` of it, have changes in the transaction's group.
    pub(crate) fn note_dirty(
        self: &Arc<Self>,
        tx: &Transaction,
        object: Option<&Arc<LiveObject>>,
    ) -> Result<(), DmuError> {
        let live = self
            .live
            .as_ref()
            .ok_or(DmuError::ReadOnly { objset: self.id() })?;
        let is_first = live.add_dirty(tx.txg(), object);
        if let (true, false, Some(gate)) = (is_first, tx.is_syncing(), &live.gate) {
            gate.add_dirty_set(self);
        }
        Ok(())
    }
}
