//! An open object: its dnode and its contents.

use crate::caching::is_metadata;
use crate::error::DmuError;
use crate::live::{LiveObject, Place};
use crate::object_set::ObjectSet;
use cenote_base::metrics::Count;
use cenote_base::{BlockId, Bookmark, ObjectId};
use cenote_cache::{Asked, Block, Retention};
use cenote_io::IoContext;
use cenote_ondisk::{BlockPointer, DecodeError, Dnode};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of contents that one worker reads and decodes at a time: enough for one large request
/// to the device, little enough that several workers have something to do.
const FETCH_BYTES: u64 = 512 << 10;

/// An object of an open object set.
#[derive(Clone, Debug)]
pub struct Object {
    set: Arc<ObjectSet>,
    id: ObjectId,
    dnode: Arc<Dnode>,
    /// The object's changes, if the object set is writable.
    pub(crate) live: Option<Arc<LiveObject>>,
    /// Nothing that is read of its contents is to stay in the cache.
    is_passing: bool,
}

/// A piece of an object's contents that lies in one block.
#[derive(Clone, Debug)]
pub struct Segment {
    /// The block, or `None` for a hole: `length` zeros.
    pub block: Option<Block>,
    /// Where the piece begins in the block, in bytes.
    pub start: usize,
    /// Bytes of the piece.
    pub length: usize,
}

impl Segment {
    /// The piece's bytes, or `None` for zeros.
    pub fn bytes(&self) -> Option<&[u8]> {
        self.block
            .as_ref()
            .map(|block| &block[self.start..self.start + self.length])
    }
}

impl Object {
    pub(crate) fn new(set: Arc<ObjectSet>, id: ObjectId, dnode: Dnode) -> Self {
        Self {
            set,
            id,
            dnode: Arc::new(dnode),
            live: None,
            is_passing: false,
        }
    }

    /// How long a block of this level stays.
    pub(crate) fn retention(&self, level: u8) -> Retention {
        let is_metadata = is_metadata(self.dnode().object_type, level);
        match self.is_passing() && !is_metadata {
            true => Retention::Pass,
            false => self.set().retention(is_metadata),
        }
    }

    /// Whether data is read before it is asked for.
    pub fn is_read_ahead(&self) -> bool {
        let is_metadata = is_metadata(self.dnode().object_type, 0);
        self.set().caching().prefetch.covers(is_metadata)
    }

    /// The object in a writable set; `None` if it is free.
    pub(crate) fn from_live(set: Arc<ObjectSet>, live: Arc<LiveObject>) -> Option<Self> {
        let dnode = live.read().dnode().cloned()?;
        Some(Self {
            set,
            id: live.id,
            dnode,
            live: Some(live),
            is_passing: false,
        })
    }

    /// The object as it is on disk, of which this is the dnode.
    pub(crate) fn committed(&self, dnode: Arc<Dnode>) -> Self {
        Self {
            set: Arc::clone(&self.set),
            id: self.id,
            dnode,
            live: None,
            is_passing: self.is_passing,
        }
    }

    /// The object, with `io` as the purpose of its reads.
    #[must_use]
    pub fn for_io(&self, io: &IoContext) -> Self {
        Self {
            set: self.set.for_io(io),
            ..self.clone()
        }
    }

    /// The object for one reader among many; what is read from devices for it is added to
    /// `from_devices`.
    #[must_use]
    pub fn for_reader(&self, from_devices: &Arc<Count>) -> Self {
        Self {
            set: self.set.for_reader(from_devices),
            ..self.clone()
        }
    }

    /// The object, for reads that leave nothing of its contents in the cache.
    #[must_use]
    pub fn in_passing(&self) -> Self {
        Self {
            is_passing: true,
            ..self.clone()
        }
    }

    pub(crate) fn is_passing(&self) -> bool {
        self.is_passing
    }

    /// Says whether what is written to the object's contents is to stay in the cache; what the
    /// last writer wants holds for all that is dirty.
    pub fn set_written_in_passing(&self, is_passing: bool) {
        if let Some(live) = &self.live {
            live.is_passing.store(is_passing, Ordering::Relaxed);
        }
    }

    /// The object's number.
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// The object's dnode, in a writable set as it was when this handle was made.
    ///
    /// Its pointers and levels are those of the tree on disk.
    pub fn dnode(&self) -> &Dnode {
        &self.dnode
    }

    /// The dnode, for callers that keep it.
    pub(crate) fn shared_dnode(&self) -> Arc<Dnode> {
        Arc::clone(&self.dnode)
    }

    /// The object set that it belongs to.
    pub fn set(&self) -> &Arc<ObjectSet> {
        &self.set
    }

    /// An error about a structure inside the object.
    pub fn malformed(&self, source: DecodeError) -> DmuError {
        DmuError::Decode {
            objset: self.set.id(),
            object: self.id,
            source,
        }
    }

    /// The newest dnode: this handle's may be of before a change.
    pub(crate) fn newest_dnode(&self) -> Arc<Dnode> {
        let newest = self
            .live
            .as_ref()
            .and_then(|live| live.read().dnode().cloned());
        newest.unwrap_or_else(|| Arc::clone(&self.dnode))
    }

    /// Data block `block`; `None` for a hole.
    pub fn block(&self, block: BlockId) -> Result<Option<Block>, DmuError> {
        let Some(live) = &self.live else {
            return self.committed_block(block);
        };
        self.set().step(self.id())?;
        live.look(block.0, |place| match place {
            Place::Contents(contents) => Ok(Some(Arc::clone(contents))),
            Place::Hole => Ok(None),
            Place::Pointer(pointer) => {
                let newest = self.committed(self.newest_dnode());
                newest.read_pointer(pointer, 0, block).map(Some)
            }
            Place::Committed(dnode) => self.committed(Arc::clone(dnode)).committed_block(block),
        })
    }

    /// The spill block's contents, if the object has one.
    pub fn spill(&self) -> Result<Option<Block>, DmuError> {
        let Some(live) = &self.live else {
            return self.committed_spill(&self.dnode);
        };
        self.set().step(self.id())?;
        live.look_at_spill(|place| match place {
            Place::Contents(contents) => Ok(Some(Arc::clone(contents))),
            Place::Hole | Place::Pointer(_) => Ok(None),
            Place::Committed(dnode) => self.committed_spill(dnode),
        })
    }

    /// The spill block on disk of a state of this object.
    fn committed_spill(&self, dnode: &Dnode) -> Result<Option<Block>, DmuError> {
        let Some(pointer) = dnode.spill else {
            return Ok(None);
        };
        if pointer.is_hole() {
            return Ok(None);
        }
        let bookmark = cenote_base::Bookmark::data(self.set.id(), self.id, BlockId(u64::MAX));
        if pointer.level().0 != 0 {
            let problem = "the spill block is not of level 0";
            return Err(DmuError::BadTree { bookmark, problem });
        }
        let keys = self.set.keys().map(AsRef::as_ref);
        let context = cenote_io::ReadContext { bookmark, keys };
        let retention = self.set.retention(true);
        let cache = self.set.cache();
        Ok(Some(cache.read_as(&pointer, context, retention)?))
    }

    /// The contents of `[offset, offset + length)` as pieces of blocks, in order.
    ///
    /// Blocks not cached yet are read and decoded by several threads at once, and a reader that
    /// goes forward has the next blocks read ahead. Beyond the last block all is zeros.
    pub fn segments(&self, offset: u64, length: usize) -> Result<Vec<Segment>, DmuError> {
        let Some(last_byte) = (length as u64)
            .checked_sub(1)
            .and_then(|l| offset.checked_add(l))
        else {
            return Ok(Vec::new());
        };
        let size = self.newest_dnode().data_block_size;
        let (first, last) = (offset / size, last_byte / size);
        if first == last {
            let block = self.read_block(BlockId(first))?;
            let start = usize::try_from(offset % size).expect("at most 16 MiB");
            return Ok(vec![Segment {
                block,
                start,
                length,
            }]);
        }
        let blocks = self.read_layers(first, last)?;
        let mut segments = Vec::with_capacity(blocks.len());
        let mut left = length;
        let mut start = offset % size;
        for block in blocks {
            let piece = usize::try_from(size - start)
                .expect("at most 16 MiB")
                .min(left);
            let begin = usize::try_from(start).expect("at most 16 MiB");
            segments.push(Segment {
                block,
                start: begin,
                length: piece,
            });
            left -= piece;
            start = 0;
        }
        assert_eq!(left, 0, "the blocks cover the range");
        Ok(segments)
    }

    /// The newest contents of a block; the reader may continue with the next one.
    fn read_block(&self, block: BlockId) -> Result<Option<Block>, DmuError> {
        let Some(live) = &self.live else {
            return self.read_committed(block);
        };
        let dnode = {
            let state = live.read();
            let end = block.0.saturating_add(1);
            let is_committed = state.is_committed(block.0, end);
            is_committed.then(|| state.committed.clone()).flatten()
        };
        if let Some(dnode) = dnode
            && let Ok(found) = self.committed(dnode).read_committed(block)
        {
            return Ok(found);
        }
        self.block(block)
    }

    /// Block `block` on disk for a reader; `None` for a hole.
    fn read_committed(&self, block: BlockId) -> Result<Option<Block>, DmuError> {
        if block <= self.dnode.block_id_max {
            self.read_ahead(block, block);
        }
        self.committed_block(block)
    }

    /// The newest contents of the blocks `first..=last`.
    fn read_layers(&self, first: u64, last: u64) -> Result<Vec<Option<Block>>, DmuError> {
        let Some(live) = &self.live else {
            return self.read_range(BlockId(first), BlockId(last));
        };
        let committed = |first: u64, last: u64| {
            let state = live.read();
            let end = last.checked_add(1)?;
            let dnode = state.is_committed(first, end).then_some(&state.committed)?;
            dnode.clone()
        };
        if let Some(dnode) = committed(first, last)
            && let Ok(blocks) = self
                .committed(dnode)
                .read_range(BlockId(first), BlockId(last))
        {
            return Ok(blocks);
        }
        // Read ahead what is on disk, then block by block whatever layer it is in.
        let mut blocks = Vec::new();
        let mut at = first;
        while at <= last {
            let next_change = live.read().next_change(at).unwrap_or(u64::MAX);
            if next_change > at.saturating_add(1)
                && at < last
                && let Some(dnode) = committed(at, last.min(next_change - 1))
            {
                let end = last.min(next_change - 1);
                let read = self.committed(dnode).read_range(BlockId(at), BlockId(end));
                if let Ok(read) = read {
                    blocks.extend(read);
                    at = end + 1;
                    continue;
                }
            }
            blocks.push(self.block(BlockId(at))?);
            at += 1;
        }
        Ok(blocks)
    }

    /// The blocks `first..=last` on disk; holes are `None`.
    fn read_range(&self, first: BlockId, last: BlockId) -> Result<Vec<Option<Block>>, DmuError> {
        let known_last = last.min(self.dnode.block_id_max);
        let count = usize::try_from(last.0 - first.0 + 1).expect("a range that fits memory");
        if first > known_last {
            return Ok(vec![None; count]);
        }
        if first == last {
            return Ok(vec![self.read_committed(first)?]);
        }
        let pointers = self.data_pointers(first, known_last)?;
        self.read_ahead(first, known_last);
        let cache = self.set.cache();
        let is_missing = |pointer: &&BlockPointer| !pointer.is_hole() && !cache.has(pointer);
        // A single block is read by its asker; only several are worth sharing out.
        let missing = pointers.iter().filter(is_missing).count();
        let mut asked = Asked::First;
        if missing > 1 {
            self.fetch_shared(&pointers, first.0);
            asked = Asked::Again;
        }
        // Blocks are fetched in order, so a reader that waits for the last one seldom waits again.
        let each = pointers.iter().enumerate().rev();
        let blocks = each.map(|(index, pointer)| {
            let block = BlockId(first.0 + index as u64);
            let read = || self.read_asked(pointer, 0, block, asked);
            (!pointer.is_hole()).then(read).transpose()
        });
        let mut blocks = blocks.collect::<Result<Vec<_>, _>>()?;
        blocks.reverse();
        blocks.resize(count, None);
        Ok(blocks)
    }

    /// Reads data blocks into the cache ahead of need; `first` is the number of the first. Returns
    /// how many were not in memory.
    pub(crate) fn fetch(&self, pointers: &[BlockPointer], first: u64) -> u64 {
        let blocks = self.with_bookmarks(pointers, first);
        let keys = self.set.keys().map(AsRef::as_ref);
        self.set.cache().fetch(&blocks, keys, self.retention(0))
    }

    /// Reads data blocks into the cache for a reader that waits for them.
    fn fetch_asked(&self, pointers: &[BlockPointer], first: u64) {
        let blocks = self.with_bookmarks(pointers, first);
        let keys = self.set.keys().map(AsRef::as_ref);
        let cache = self.set.cache();
        cache.fetch_asked(&blocks, keys, self.retention(0));
    }

    fn with_bookmarks(
        &self,
        pointers: &[BlockPointer],
        first: u64,
    ) -> Vec<(BlockPointer, Bookmark)> {
        let (objset, object) = (self.set.id(), self.id);
        let place = |id| Bookmark::data(objset, object, BlockId(id));
        let blocks = pointers.iter().zip(first..);
        blocks.map(|(pointer, id)| (*pointer, place(id))).collect()
    }

    /// As [`Self::fetch_asked`], shared out among the workers.
    fn fetch_shared(&self, pointers: &[BlockPointer], first: u64) {
        let size = self.dnode.data_block_size;
        let each = usize::try_from(FETCH_BYTES / size).unwrap_or(1).max(1);
        let groups = pointers.chunks(each).map(<[BlockPointer]>::to_vec);
        let items = groups.zip((first..).step_by(each)).collect();
        let object = self.clone();
        let fetch =
            move |(group, first): (Vec<BlockPointer>, u64)| object.fetch_asked(&group, first);
        self.set.cache().workers().map(items, fetch);
    }

    /// The first byte at or behind `offset` that lies in a stored block.
    pub fn next_data(&self, offset: u64) -> Result<Option<u64>, DmuError> {
        let size = self.block_size();
        let block = self.next_data_block(BlockId(offset / size))?;
        Ok(block.map(|block| block.0.saturating_mul(size).max(offset)))
    }

    /// The first byte at or behind `offset` that lies in none.
    pub fn next_hole(&self, offset: u64) -> Result<u64, DmuError> {
        let size = self.block_size();
        let block = self.next_hole_block(BlockId(offset / size))?;
        Ok(block.0.saturating_mul(size).max(offset))
    }

    /// Fills `buffer` with the contents from `offset` on; zeros beyond the last block.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DmuError> {
        let mut at = 0;
        for segment in self.segments(offset, buffer.len())? {
            let target = &mut buffer[at..at + segment.length];
            match segment.bytes() {
                Some(bytes) => target.copy_from_slice(bytes),
                None => target.fill(0),
            }
            at += segment.length;
        }
        Ok(())
    }
}
