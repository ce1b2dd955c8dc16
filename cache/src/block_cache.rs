//! Reading blocks through the cache.

use crate::arc::{ArcCache, ArcCounters, BlockId};
use crate::flight::Flights;
use cenote_base::Bookmark;
use cenote_device::BlockBuffer;
use cenote_io::{IoError, ObjsetKeys, Pipeline, ReadContext, Workers};
use cenote_ondisk::BlockPointer;
use std::sync::Arc;

/// A block's logical contents in little-endian form.
pub type Block = Arc<BlockBuffer>;

/// How much memory each part may take, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// Blocks as stored.
    pub stored: u64,
    /// Decoded copies.
    pub decoded: u64,
}

impl CacheLimits {
    /// Divides `total` bytes: a quarter for decoded copies, which save time, the rest for blocks
    /// as stored, of which the same memory holds more.
    pub fn of_total(total: u64) -> Self {
        let decoded = total / 4;
        Self {
            stored: total - decoded,
            decoded,
        }
    }
}

/// The cache of one pool, and the workers that fill it.
#[derive(Debug)]
pub struct BlockCache {
    pipeline: Arc<Pipeline>,
    workers: Arc<Workers>,
    stored: ArcCache,
    decoded: ArcCache,
    flights: Flights,
}

impl BlockCache {
    /// A cold cache.
    pub fn new(pipeline: Arc<Pipeline>, workers: Arc<Workers>, limits: CacheLimits) -> Self {
        let (stored, decoded) = (ArcCache::new(limits.stored), ArcCache::new(limits.decoded));
        Self {
            pipeline,
            workers,
            stored,
            decoded,
            flights: Flights::default(),
        }
    }

    /// The pipeline below.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// The threads that read ahead and decode.
    pub fn workers(&self) -> &Arc<Workers> {
        &self.workers
    }

    /// Hits and misses of the stored and the decoded part.
    pub fn counters(&self) -> [&ArcCounters; 2] {
        [&self.stored.counters, &self.decoded.counters]
    }

    /// Bytes cached now: stored, decoded.
    pub fn bytes(&self) -> [u64; 2] {
        [self.stored.bytes(), self.decoded.bytes()]
    }

    /// Sets other limits; what is above them is dropped before this returns.
    pub fn set_limits(&self, limits: CacheLimits) {
        self.stored.set_limit(limits.stored);
        self.decoded.set_limit(limits.decoded);
    }

    /// The limits now.
    pub fn limits(&self) -> CacheLimits {
        CacheLimits {
            stored: self.stored.limit(),
            decoded: self.decoded.limit(),
        }
    }

    /// The limit of the decoded part in bytes.
    pub fn decoded_limit(&self) -> u64 {
        self.decoded.limit()
    }

    /// Counts a block that was asked for and found by who had noted where it is.
    pub fn note_hit(&self) {
        self.decoded.counters.hits.add(1);
    }

    /// Whether a block's contents would be had without reading or decoding, now or shortly.
    pub fn has(&self, pointer: &BlockPointer) -> bool {
        let id = id_of(pointer);
        self.decoded.contains(&id)
            || self.flights.contains(&id)
            || (self.stored.contains(&id) && pointer.physical_size() == pointer.logical_size())
    }

    /// The contents of the block that `pointer` points to; not for holes.
    pub fn read(&self, pointer: &BlockPointer, ctx: ReadContext<'_>) -> Result<Block, IoError> {
        if pointer.is_embedded() {
            let contents = self.pipeline.read(pointer, ctx)?;
            return Ok(Arc::new(contents.into()));
        }
        let id = id_of(pointer);
        if let Some(block) = self.decoded.get(&id) {
            return Ok(block);
        }
        if let Some(stored) = self.stored.get(&id) {
            return self.decode(pointer, id, stored, ctx);
        }
        // The flight ends when its owner has cached the block or given up.
        let flight = self.flights.begin(id);
        if flight.is_none() {
            if let Some(block) = self.decoded.get(&id) {
                return Ok(block);
            }
            if let Some(stored) = self.stored.get(&id) {
                return self.decode(pointer, id, stored, ctx);
            }
        }
        let stored = self.pipeline.read_stored(pointer, ctx.bookmark)?;
        let stored = Arc::new(BlockBuffer::from(stored));
        self.stored.insert(id, Arc::clone(&stored));
        self.decode(pointer, id, stored, ctx)
    }

    /// Reads and decodes those of several blocks whose contents are not cached yet, neighbours in
    /// one request. What cannot be had this way is left to [`Self::read`], which says why.
    pub fn fetch(&self, blocks: &[(BlockPointer, Bookmark)], keys: Option<&ObjsetKeys>) {
        let mut wanted = Vec::with_capacity(blocks.len());
        let mut flights = Vec::with_capacity(blocks.len());
        for (pointer, bookmark) in blocks {
            if pointer.is_embedded() || pointer.is_hole() || self.has(pointer) {
                continue;
            }
            let id = id_of(pointer);
            let Some(flight) = self.flights.try_begin(id) else {
                continue;
            };
            match self.stored.get(&id) {
                Some(stored) => {
                    let bookmark = *bookmark;
                    // An error here meets whoever asks for the block.
                    let _ = self.decode(pointer, id, stored, ReadContext { bookmark, keys });
                }
                None => {
                    wanted.push((*pointer, *bookmark));
                    flights.push(flight);
                }
            }
        }
        if wanted.is_empty() {
            return;
        }
        let stored = self.pipeline.read_stored_batch(&wanted);
        // Each flight lands as soon as its own block is decoded.
        for (((pointer, bookmark), stored), flight) in wanted.iter().zip(stored).zip(flights) {
            if let Some(stored) = stored {
                let (id, stored) = (id_of(pointer), Arc::new(stored));
                self.stored.insert(id, Arc::clone(&stored));
                let bookmark = *bookmark;
                let _ = self.decode(pointer, id, stored, ReadContext { bookmark, keys });
            }
            drop(flight);
        }
    }

    fn decode(
        &self,
        pointer: &BlockPointer,
        id: BlockId,
        stored: Block,
        ctx: ReadContext<'_>,
    ) -> Result<Block, IoError> {
        let Some(contents) = self.pipeline.decode(pointer, &stored, ctx)? else {
            return Ok(stored);
        };
        let contents = Arc::new(contents);
        // What an encrypted dnode block decodes to depends on whether the key is loaded.
        if ctx.keys.is_some() || !pointer.uses_crypt() {
            self.decoded.insert(id, Arc::clone(&contents));
        }
        Ok(contents)
    }

    /// Takes over the contents of a block that was just written, in place of an older state of
    /// the same address and birth.
    pub fn insert_written(&self, pointer: &BlockPointer, contents: Block) {
        if pointer.is_embedded() || pointer.is_hole() {
            return;
        }
        let id = id_of(pointer);
        let as_stored = pointer.physical_size() == pointer.logical_size();
        if as_stored && !pointer.uses_crypt() {
            self.decoded.remove(&id);
            self.stored.remove(&id);
            self.stored.insert(id, contents);
        } else {
            self.stored.remove(&id);
            self.decoded.remove(&id);
            self.decoded.insert(id, contents);
        }
    }

    /// Forgets a block that another one was written in place of. A snapshot may still have it, and
    /// reads it again then; but most often nobody does, and large directories and tables of dnodes,
    /// written again in each group, would fill the cache with what they were.
    pub fn forget_replaced(&self, pointer: &BlockPointer) {
        if pointer.is_embedded() || pointer.is_hole() {
            return;
        }
        let id = id_of(pointer);
        self.decoded.remove(&id);
        self.stored.remove(&id);
    }

    /// Forgets the decoded copy of a block that is unlikely to be wanted again soon; it stays as
    /// stored. The next block decoded then finds warm memory.
    pub fn give_up_decoded(&self, pointer: &BlockPointer) {
        self.decoded.remove(&id_of(pointer));
    }

    /// Forgets all decoded copies: called when a key is unloaded.
    pub fn forget_decoded(&self) {
        self.decoded.clear();
    }
}

fn id_of(pointer: &BlockPointer) -> BlockId {
    BlockId {
        dva: [pointer.words[0], pointer.words[1]],
        birth: pointer.physical_birth().0,
    }
}
