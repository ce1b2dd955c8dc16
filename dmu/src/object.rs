//! An open object: its dnode and its contents.

use crate::error::DmuError;
use crate::object_set::ObjectSet;
use cenote_base::{BlockId, Bookmark, ObjectId};
use cenote_cache::Block;
use cenote_ondisk::{BlockPointer, DecodeError, Dnode};
use std::sync::Arc;

/// Bytes of contents that one worker reads and decodes at a time: enough for one large request
/// to the device, little enough that several workers have something to do.
const FETCH_BYTES: u64 = 512 << 10;

/// An object of an open object set.
#[derive(Clone, Debug)]
pub struct Object {
    set: Arc<ObjectSet>,
    id: ObjectId,
    dnode: Arc<Dnode>,
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
        }
    }

    /// The object's number.
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// The object's dnode.
    pub fn dnode(&self) -> &Dnode {
        &self.dnode
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

    /// Data block `block`; `None` for a hole.
    pub fn block(&self, block: BlockId) -> Result<Option<Block>, DmuError> {
        if block > self.dnode.block_id_max {
            return Ok(None);
        }
        let pointer = self.block_pointer(0, block)?;
        if pointer.is_hole() {
            return Ok(None);
        }
        self.read_pointer(&pointer, 0, block).map(Some)
    }

    /// The spill block's contents, if the object has one.
    pub fn spill(&self) -> Result<Option<Block>, DmuError> {
        let Some(pointer) = self.dnode.spill else {
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
        Ok(Some(self.set.cache().read(&pointer, context)?))
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
        let size = self.dnode.data_block_size;
        let (first, last) = (offset / size, last_byte / size);
        let blocks = self.read_range(BlockId(first), BlockId(last))?;
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

    /// The blocks `first..=last`; holes are `None`.
    fn read_range(&self, first: BlockId, last: BlockId) -> Result<Vec<Option<Block>>, DmuError> {
        let known_last = last.min(self.dnode.block_id_max);
        let count = usize::try_from(last.0 - first.0 + 1).expect("a range that fits memory");
        if first > known_last {
            return Ok(vec![None; count]);
        }
        let pointers = self.data_pointers(first, known_last)?;
        self.set.streams.read_ahead(self, first, known_last);
        let cache = self.set.cache();
        let is_missing = |pointer: &&BlockPointer| !pointer.is_hole() && !cache.has(pointer);
        // A single block is read by its asker; only several are worth sharing out.
        let missing = match pointers.len() {
            1 => 0,
            _ => pointers.iter().filter(is_missing).count(),
        };
        if missing > 1 {
            self.fetch_shared(&pointers, first.0);
        }
        let each = pointers.iter().zip(first.0..);
        let blocks = each.map(|(pointer, id)| self.read_data(pointer, id));
        let mut blocks = blocks.collect::<Result<Vec<_>, _>>()?;
        blocks.resize(count, None);
        Ok(blocks)
    }

    /// Reads data blocks into the cache; `first` is the number of the first.
    pub(crate) fn fetch(&self, pointers: &[BlockPointer], first: u64) {
        let (objset, object) = (self.set.id(), self.id);
        let place = |id| Bookmark::data(objset, object, BlockId(id));
        let blocks: Vec<_> = pointers
            .iter()
            .zip(first..)
            .map(|(pointer, id)| (*pointer, place(id)))
            .collect();
        self.set
            .cache()
            .fetch(&blocks, self.set.keys().map(AsRef::as_ref));
    }

    /// As [`Self::fetch`], shared out among the workers.
    fn fetch_shared(&self, pointers: &[BlockPointer], first: u64) {
        let size = self.dnode.data_block_size;
        let each = usize::try_from(FETCH_BYTES / size).unwrap_or(1).max(1);
        let groups = pointers.chunks(each).map(<[BlockPointer]>::to_vec);
        let items = groups.zip((first..).step_by(each)).collect();
        let object = self.clone();
        let fetch = move |(group, first): (Vec<BlockPointer>, u64)| object.fetch(&group, first);
        self.set.cache().workers().map(items, fetch);
    }

    pub(crate) fn read_data(
        &self,
        pointer: &BlockPointer,
        id: u64,
    ) -> Result<Option<Block>, DmuError> {
        if pointer.is_hole() {
            return Ok(None);
        }
        self.read_pointer(pointer, 0, BlockId(id)).map(Some)
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
