//! Reading blocks through the cache.

use crate::arc::{ArcCache, ArcFigures, BlockId, NOBODY, Origin};
use crate::datasets::{DatasetCells, DatasetFigures, Datasets};
use crate::flight::Flights;
use crate::lookups::{Lookup, Lookups, Outcome, is_ahead, is_metadata};
use cenote_base::metrics::{Count, Counter};
use cenote_base::{Bookmark, ObjsetId};
use cenote_device::BlockBuffer;
use cenote_io::{IoContext, IoError, ObjsetKeys, Pipeline, ReadContext, Workers};
use cenote_ondisk::BlockPointer;
use std::collections::HashMap;
use std::sync::Arc;

/// A block's logical contents in little-endian form.
pub type Block = Arc<BlockBuffer>;

/// How long a block stays after the reader that asked for it has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retention {
    /// As long as the cache finds it worth its memory.
    #[default]
    Keep,
    /// Until others like it push it out of a small cache of their own: long enough for what is
    /// read ahead to meet its reader, and for a reader of small pieces.
    Pass,
}

/// Whether a reader asks for a block the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It does.
    First,
    /// It had it fetched together with others, and comes for it now: not counted again.
    Again,
}

/// Reads that ask only for what is in memory decode blocks up to so many bytes: a few microseconds.
const DECODED_AT_ONCE_MAX: u64 = 16 << 10;

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

/// A way to read the blocks of one pool through its cache.
///
/// All handles of a pool share what is cached, and the workers that fill it. Each says what it is
/// read through for, and for which dataset, if for one.
#[derive(Clone, Debug)]
pub struct BlockCache {
    shared: Arc<Shared>,
    io: IoContext,
    dataset: Option<Arc<DatasetCells>>,
    /// Bytes of contents that had to be read from devices through this handle.
    from_devices: Option<Arc<Count>>,
}

#[derive(Debug)]
struct Shared {
    pipeline: Arc<Pipeline>,
    workers: Arc<Workers>,
    stored: ArcCache,
    decoded: ArcCache,
    /// Contents of blocks that are to [pass](Retention::Pass).
    passing: ArcCache,
    flights: Flights,
    lookups: Lookups,
    datasets: Datasets,
    read_ahead: ReadAhead,
}

/// What was noticed of readers that go forward.
#[derive(Debug, Default)]
pub struct ReadAhead {
    /// Reads that continued where another one had ended.
    pub continued: Counter,
    /// Reads that did not.
    pub begun: Counter,
    /// Blocks that were read from devices ahead of such readers.
    pub blocks: Counter,
}

/// What the parts of a cache have and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheFigures {
    /// Blocks as stored.
    pub stored: ArcFigures,
    /// Decoded copies.
    pub decoded: ArcFigures,
    /// Contents of blocks that pass through.
    pub passing: ArcFigures,
}

impl Shared {
    fn parts(&self) -> [&ArcCache; 3] {
        [&self.stored, &self.decoded, &self.passing]
    }
}

/// The part of the decoded blocks' memory that is for those that pass, and its most.
const PASSING_SHARE: u64 = 8;
const PASSING_BYTES_MAX: u64 = 32 << 20;

/// Divides the memory for decoded blocks: those that stay, and those that pass.
fn divide(decoded: u64) -> (u64, u64) {
    let passing = (decoded / PASSING_SHARE).min(PASSING_BYTES_MAX);
    (decoded - passing, passing)
}

impl BlockCache {
    /// A cold cache, read through for users.
    pub fn new(pipeline: Arc<Pipeline>, workers: Arc<Workers>, limits: CacheLimits) -> Self {
        let (decoded, passing) = divide(limits.decoded);
        let (stored, decoded) = (ArcCache::new(limits.stored), ArcCache::new(decoded));
        let shared = Shared {
            pipeline,
            workers,
            stored,
            decoded,
            passing: ArcCache::new(passing),
            flights: Flights::default(),
            lookups: Lookups::default(),
            datasets: Datasets::default(),
            read_ahead: ReadAhead::default(),
        };
        Self {
            shared: Arc::new(shared),
            io: IoContext::USER,
            dataset: None,
            from_devices: None,
        }
    }

    /// The same cache, read through for something else.
    pub fn for_io(&self, io: &IoContext) -> Arc<Self> {
        Arc::new(Self {
            shared: Arc::clone(&self.shared),
            io: io.clone(),
            dataset: self.dataset.clone(),
            from_devices: self.from_devices.clone(),
        })
    }

    /// The same cache for one reader among many: adds to `from_devices` the bytes of contents that
    /// are read from devices for it, now or ahead.
    pub fn for_reader(&self, from_devices: &Arc<Count>) -> Arc<Self> {
        Arc::new(Self {
            from_devices: Some(Arc::clone(from_devices)),
            ..self.clone()
        })
    }

    /// The same cache, read through for a dataset, whose lookups and blocks are counted apart. The
    /// meta object set is no dataset.
    pub fn for_dataset(&self, id: ObjsetId) -> Arc<Self> {
        let is_dataset = id != ObjsetId::default();
        Arc::new(Self {
            shared: Arc::clone(&self.shared),
            io: self.io.clone(),
            dataset: is_dataset.then(|| self.shared.datasets.cells(id)),
            from_devices: None,
        })
    }

    /// Starts the figures of a dataset from zero: it was destroyed, or was just created with the
    /// number of a destroyed one.
    pub fn forget_dataset(&self, id: ObjsetId) {
        self.shared.datasets.forget(id);
    }

    /// What the readers of each dataset did and have.
    pub fn datasets(&self) -> HashMap<ObjsetId, DatasetFigures> {
        let mut tagged = HashMap::new();
        for part in self.shared.parts() {
            part.add_tagged(&mut tagged);
        }
        self.shared.datasets.figures(&tagged)
    }

    /// Counts of readers that go forward.
    pub fn read_ahead(&self) -> &ReadAhead {
        &self.shared.read_ahead
    }

    /// What it is read through for.
    pub fn io(&self) -> &IoContext {
        &self.io
    }

    /// Whether another handle is of the same cache.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// The pipeline below.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.shared.pipeline
    }

    /// The threads that read ahead and decode.
    pub fn workers(&self) -> &Arc<Workers> {
        &self.shared.workers
    }

    /// How lookups ended.
    pub fn lookups(&self) -> &Lookups {
        &self.shared.lookups
    }

    /// What its parts have and did.
    pub fn figures(&self) -> CacheFigures {
        CacheFigures {
            stored: self.shared.stored.figures(),
            decoded: self.shared.decoded.figures(),
            passing: self.shared.passing.figures(),
        }
    }

    /// Bytes cached now: stored, decoded.
    pub fn bytes(&self) -> [u64; 2] {
        let decoded = self.shared.decoded.bytes() + self.shared.passing.bytes();
        [self.shared.stored.bytes(), decoded]
    }

    /// Sets other limits; what is above them is dropped before this returns.
    pub fn set_limits(&self, limits: CacheLimits) {
        let (decoded, passing) = divide(limits.decoded);
        self.shared.stored.set_limit(limits.stored);
        self.shared.decoded.set_limit(decoded);
        self.shared.passing.set_limit(passing);
    }

    /// The limits now.
    pub fn limits(&self) -> CacheLimits {
        CacheLimits {
            stored: self.shared.stored.limit(),
            decoded: self.shared.decoded.limit() + self.shared.passing.limit(),
        }
    }

    /// The limit in bytes of what is decoded of blocks that stay so long.
    pub fn decoded_limit(&self, retention: Retention) -> u64 {
        match retention {
            Retention::Keep => self.shared.decoded.limit(),
            Retention::Pass => self.shared.passing.limit(),
        }
    }

    /// Counts a hit for a block whose place the caller remembered.
    pub fn note_hit(&self, is_metadata: bool) {
        self.note_lookup(Lookup {
            is_metadata,
            is_ahead: false,
            outcome: Outcome::Hit,
        });
    }

    fn note(&self, pointer: &BlockPointer, is_ahead: bool, outcome: Outcome) {
        let is_metadata = is_metadata(pointer);
        if let Some(bytes) = &self.from_devices
            && !is_metadata
            && outcome == Outcome::Miss
        {
            bytes.add(pointer.logical_size());
        }
        self.note_lookup(Lookup {
            is_metadata,
            is_ahead,
            outcome,
        });
    }

    fn note_lookup(&self, lookup: Lookup) {
        self.shared.lookups.note(lookup);
        if let Some(dataset) = &self.dataset {
            dataset.note(lookup);
        }
    }

    /// What a block is that this handle brings into the cache.
    fn origin(&self, pointer: &BlockPointer) -> Origin {
        let dataset = self.dataset.as_ref();
        Origin {
            is_metadata: is_metadata(pointer),
            tag: dataset.map_or(NOBODY, |dataset| dataset.tag()),
        }
    }

    /// Whether a block's contents would be had without reading or decoding, now or shortly.
    pub fn has(&self, pointer: &BlockPointer) -> bool {
        let id = id_of(pointer);
        self.shared.decoded.contains(&id)
            || self.shared.flights.contains(&id)
            || self.shared.passing.contains(&id)
            || (self.shared.stored.contains(&id)
                && pointer.physical_size() == pointer.logical_size())
    }

    /// The contents of a block if memory has them: no device and no other reader is waited for.
    ///
    /// A block that memory has in its stored form only is decoded if it is small. Not for holes.
    pub fn peek(
        &self,
        pointer: &BlockPointer,
        ctx: ReadContext<'_>,
        retention: Retention,
    ) -> Option<Block> {
        if pointer.is_embedded() {
            // It is in the pointer: nothing is read.
            let contents = self.shared.pipeline.read(pointer, ctx, &self.io).ok()?;
            return Some(Arc::new(contents.into()));
        }
        let id = id_of(pointer);
        let decode = |stored: Block| {
            let is_quick = pointer.logical_size() <= DECODED_AT_ONCE_MAX
                || pointer.physical_size() == pointer.logical_size() && !pointer.uses_crypt();
            let decode = || self.decode(pointer, id, stored, ctx, retention).ok();
            is_quick.then(decode).flatten()
        };
        let found = (self.shared.decoded.get(&id))
            .or_else(|| self.shared.stored.get(&id).and_then(decode))
            .or_else(|| self.shared.passing.get(&id))?;
        self.note(pointer, is_ahead(&self.io), Outcome::Hit);
        Some(found)
    }

    /// The contents of the block that `pointer` points to; not for holes.
    pub fn read(&self, pointer: &BlockPointer, ctx: ReadContext<'_>) -> Result<Block, IoError> {
        self.read_as(pointer, ctx, Retention::Keep)
    }

    /// As [`Self::read`], of a block that stays so long if it is not cached yet.
    pub fn read_as(
        &self,
        pointer: &BlockPointer,
        ctx: ReadContext<'_>,
        retention: Retention,
    ) -> Result<Block, IoError> {
        self.read_asked(pointer, ctx, retention, Asked::First)
    }

    /// As [`Self::read_as`], where the reader may have asked for the block before.
    pub fn read_asked(
        &self,
        pointer: &BlockPointer,
        ctx: ReadContext<'_>,
        retention: Retention,
        asked: Asked,
    ) -> Result<Block, IoError> {
        let note = |outcome| {
            if asked == Asked::First {
                self.note(pointer, is_ahead(&self.io), outcome);
            }
        };
        if pointer.is_embedded() {
            let contents = self.shared.pipeline.read(pointer, ctx, &self.io)?;
            return Ok(Arc::new(contents.into()));
        }
        let id = id_of(pointer);
        if let Some(found) = self.find(pointer, id, ctx, retention) {
            note(Outcome::Hit);
            return found;
        }
        // The flight ends when its owner has cached the block or given up.
        let flight = self.shared.flights.begin(id);
        if flight.is_none()
            && let Some(found) = self.find(pointer, id, ctx, retention)
        {
            note(Outcome::Wait);
            return found;
        }
        note(Outcome::Miss);
        let stored = self.read_stored(pointer, ctx.bookmark)?;
        let stored = Arc::new(BlockBuffer::from(stored));
        if retention == Retention::Keep {
            let part = &self.shared.stored;
            part.insert(id, Arc::clone(&stored), self.origin(pointer));
        }
        self.decode(pointer, id, stored, ctx, retention)
    }

    /// Reads a block's stored bytes past the cache, for what this handle is for.
    ///
    /// # Errors
    /// As [`Pipeline::read_stored`].
    pub fn read_stored(
        &self,
        pointer: &BlockPointer,
        bookmark: Bookmark,
    ) -> Result<Vec<u8>, IoError> {
        let pipeline = &self.shared.pipeline;
        pipeline.read_stored(pointer, bookmark, &self.io)
    }

    /// Reads the stored bytes of several blocks past the cache, as
    /// [`Pipeline::read_stored_batch`] does.
    pub fn read_stored_batch(
        &self,
        blocks: &[(BlockPointer, Bookmark)],
    ) -> Vec<Option<BlockBuffer>> {
        self.shared.pipeline.read_stored_batch(blocks, &self.io)
    }

    /// The contents of a block of which something is cached.
    fn find(
        &self,
        pointer: &BlockPointer,
        id: BlockId,
        ctx: ReadContext<'_>,
        retention: Retention,
    ) -> Option<Result<Block, IoError>> {
        if let Some(block) = self.shared.decoded.get(&id) {
            return Some(Ok(block));
        }
        if let Some(stored) = self.shared.stored.get(&id) {
            return Some(self.decode(pointer, id, stored, ctx, retention));
        }
        self.shared.passing.get(&id).map(Ok)
    }

    /// Reads and decodes those of several blocks whose contents are not cached yet, neighbours in
    /// one request. What cannot be had this way is left to [`Self::read`], which says why.
    ///
    /// They are counted as read ahead: the reader that comes for them counts as the first. Returns
    /// how many were not in memory.
    pub fn fetch(
        &self,
        blocks: &[(BlockPointer, Bookmark)],
        keys: Option<&ObjsetKeys>,
        retention: Retention,
    ) -> u64 {
        self.fetch_counting(blocks, keys, retention, true)
    }

    /// The same for a reader that waits for all of them, and comes for them [again](Asked::Again).
    pub fn fetch_asked(
        &self,
        blocks: &[(BlockPointer, Bookmark)],
        keys: Option<&ObjsetKeys>,
        retention: Retention,
    ) {
        self.fetch_counting(blocks, keys, retention, is_ahead(&self.io));
    }

    fn fetch_counting(
        &self,
        blocks: &[(BlockPointer, Bookmark)],
        keys: Option<&ObjsetKeys>,
        retention: Retention,
        is_ahead: bool,
    ) -> u64 {
        let note = |pointer: &BlockPointer, outcome| self.note(pointer, is_ahead, outcome);
        let mut wanted = Vec::with_capacity(blocks.len());
        let mut flights = Vec::with_capacity(blocks.len());
        for (pointer, bookmark) in blocks {
            if pointer.is_embedded() || pointer.is_hole() {
                continue;
            }
            if self.has(pointer) {
                note(pointer, Outcome::Hit);
                continue;
            }
            let id = id_of(pointer);
            let Some(flight) = self.shared.flights.try_begin(id) else {
                note(pointer, Outcome::Wait);
                continue;
            };
            match self.shared.stored.get(&id) {
                Some(stored) => {
                    note(pointer, Outcome::Hit);
                    let context = ReadContext {
                        bookmark: *bookmark,
                        keys,
                    };
                    // The reader that asks for the block gets the error.
                    let _ = self.decode(pointer, id, stored, context, retention);
                }
                None => {
                    note(pointer, Outcome::Miss);
                    wanted.push((*pointer, *bookmark));
                    flights.push(flight);
                }
            }
        }
        if wanted.is_empty() {
            return 0;
        }
        let stored = self.read_stored_batch(&wanted);
        // Each flight lands as soon as its own block is decoded.
        for (((pointer, bookmark), stored), flight) in wanted.iter().zip(stored).zip(flights) {
            if let Some(stored) = stored {
                let (id, stored) = (id_of(pointer), Arc::new(stored));
                if retention == Retention::Keep {
                    let part = &self.shared.stored;
                    part.insert(id, Arc::clone(&stored), self.origin(pointer));
                }
                let context = ReadContext {
                    bookmark: *bookmark,
                    keys,
                };
                let _ = self.decode(pointer, id, stored, context, retention);
            }
            drop(flight);
        }
        wanted.len() as u64
    }

    fn decode(
        &self,
        pointer: &BlockPointer,
        id: BlockId,
        stored: Block,
        ctx: ReadContext<'_>,
        retention: Retention,
    ) -> Result<Block, IoError> {
        let decoded = self
            .shared
            .pipeline
            .decode(pointer, &stored, ctx)?
            .map(Arc::new);
        let is_decoded = decoded.is_some();
        let contents = decoded.unwrap_or(stored);
        // What an encrypted dnode block decodes to depends on whether the key is loaded.
        if ctx.keys.is_some() || !pointer.uses_crypt() {
            let part = match retention {
                Retention::Pass => Some(&self.shared.passing),
                Retention::Keep if is_decoded => Some(&self.shared.decoded),
                Retention::Keep => None,
            };
            if let Some(part) = part {
                part.insert(id, Arc::clone(&contents), self.origin(pointer));
            }
        }
        Ok(contents)
    }

    /// Takes over the contents of a block that was just written, in place of an older state of
    /// the same address and birth.
    pub fn insert_written(&self, pointer: &BlockPointer, contents: Block, retention: Retention) {
        if pointer.is_embedded() || pointer.is_hole() {
            return;
        }
        let id = id_of(pointer);
        self.forget(&id);
        let as_stored = pointer.physical_size() == pointer.logical_size();
        let part = match retention {
            Retention::Pass => &self.shared.passing,
            Retention::Keep if as_stored && !pointer.uses_crypt() => &self.shared.stored,
            Retention::Keep => &self.shared.decoded,
        };
        part.insert(id, contents, self.origin(pointer));
    }

    fn forget(&self, id: &BlockId) {
        for part in self.shared.parts() {
            part.remove(id);
        }
    }

    /// Forgets a block that a newer one replaced. A snapshot may still have it, and reads it again
    /// then. But most often none does, and large directories and tables of dnodes, which each group
    /// rewrites, would fill the cache with old versions.
    pub fn forget_replaced(&self, pointer: &BlockPointer) {
        if pointer.is_embedded() || pointer.is_hole() {
            return;
        }
        self.forget(&id_of(pointer));
    }

    /// Forgets the decoded copy of a block that is unlikely to be wanted again soon; it stays as
    /// stored. The next block decoded then finds warm memory.
    pub fn give_up_decoded(&self, pointer: &BlockPointer) {
        let id = id_of(pointer);
        self.shared.decoded.remove(&id);
        self.shared.passing.remove(&id);
    }

    /// Forgets everything, so that what is read next comes from devices.
    pub fn forget_all(&self) {
        self.shared.stored.clear();
        self.shared.passing.clear();
        self.forget_decoded();
    }

    /// Forgets all decoded copies: called when a key is unloaded.
    pub fn forget_decoded(&self) {
        self.shared.decoded.clear();
        self.shared.passing.clear();
    }
}

fn id_of(pointer: &BlockPointer) -> BlockId {
    BlockId {
        dva: [pointer.words[0], pointer.words[1]],
        birth: pointer.physical_birth().0,
    }
}
