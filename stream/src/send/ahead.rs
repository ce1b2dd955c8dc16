//! Records on their way into a stream, with read-ahead of their blocks.
//!
//! A stream is in the order of objects and offsets; its blocks are on disk in another order.
//! Records from the walk wait in a queue, and their blocks are collected in groups. A worker of the
//! pool sorts a group by address, reads neighbours in one request, and decodes them. The front of
//! the queue leaves when its block was read, so records stay in order.
//!
//! The queue is limited by the bytes of its blocks ([`bytes_ahead`]) and by its length. Blocks read
//! here are not kept in the cache, because a stream is read once.

use super::emit::Emitter;
use crate::error::{StreamError, unreadable};
use crate::writer::Writer;
use cenote_base::Bookmark;
use cenote_base::rt::{Condvar, Mutex, ranks};
use cenote_cache::{Block, BlockBuffer, BlockCache, Retention};
use cenote_dmu::DmuError;
use cenote_dmu::traverse::Visit;
use cenote_io::{IoError, ObjsetKeys, ReadContext};
use cenote_ondisk::BlockPointer;
use cenote_ondisk::stream::{Free, FreeObjects, Record, Redact, Write as WriteRecord};
use std::collections::VecDeque;
use std::io::Write;
use std::ops::Deref;
use std::sync::Arc;

/// Bytes of blocks that are read ahead, at most.
const BYTES_AHEAD_MAX: u64 = 16 << 20;
/// Of the memory for caches, what is read ahead takes one part in so many.
const MEMORY_SHARE: u64 = 8;
/// A group is read when it has so many bytes, or blocks.
const GROUP_BYTES: u64 = 1 << 20;
const GROUP_BLOCKS: usize = 64;
/// Records that wait, at most; each has less than 1 KiB beside its block.
const STEPS_MAX: usize = 4096;

/// What becomes of a block's bytes.
pub(super) enum Shape {
    /// Contents, as the record's payload.
    Contents(Record),
    /// As it is stored; the record gets its stored size.
    Stored(Record),
    /// Contents, in records of so many bytes each.
    Pieces(Box<WriteRecord>, usize),
}

/// What waits.
enum Step {
    Record(Record, Vec<u8>),
    Free(Free),
    Redact(Redact),
    FreeObjects(FreeObjects),
    /// A block, and its number in its group.
    Block(Box<(Shape, Visit)>, Arc<Group>, usize),
}

/// The bytes of a block.
enum Bytes {
    Cached(Block),
    Read(BlockBuffer),
    Alone(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Cached(block) => block,
            Self::Read(buffer) => buffer,
            Self::Alone(bytes) => bytes,
        }
    }
}

type Found = Result<Bytes, IoError>;

/// A block that is to be read.
#[derive(Clone, Copy)]
struct Wanted {
    pointer: BlockPointer,
    bookmark: Bookmark,
    is_stored: bool,
}

/// Blocks that are read together.
#[derive(Default)]
struct Group {
    /// What came; `None` until the worker is done with all of them.
    found: Mutex<Option<Vec<Option<Found>>>, ranks::SendAhead>,
    is_done: Condvar,
}

impl Group {
    fn put(&self, found: Vec<Option<Found>>) {
        *self.found.lock() = Some(found);
        self.is_done.notify_all();
    }

    /// The result for a block; `None` if it was not read.
    fn take(&self, index: usize) -> Option<Found> {
        let mut found = self.found.lock();
        loop {
            match found.as_mut() {
                Some(found) => return found.get_mut(index).and_then(Option::take),
                None => {
                    found = self.is_done.wait(found);
                }
            }
        }
    }
}

/// A worker's group. Dropping it wakes the waiting threads even if the work failed.
struct Job {
    group: Arc<Group>,
    wanted: Vec<Wanted>,
    reads: Arc<Reads>,
    found: Vec<Option<Found>>,
}

impl Drop for Job {
    fn drop(&mut self) {
        self.group.put(std::mem::take(&mut self.found));
    }
}

/// Where blocks are read.
struct Reads {
    cache: Arc<BlockCache>,
    keys: Option<Arc<ObjsetKeys>>,
}

impl Reads {
    /// One block by itself, with all that may help.
    fn alone(&self, wanted: &Wanted) -> Found {
        let context = ReadContext {
            bookmark: wanted.bookmark,
            keys: self.keys.as_deref(),
        };
        match wanted.is_stored {
            true => {
                let stored = self.cache.read_stored(&wanted.pointer, wanted.bookmark);
                stored.map(Bytes::Alone)
            }
            false => {
                let read = self
                    .cache
                    .read_as(&wanted.pointer, context, Retention::Pass);
                read.map(Bytes::Cached)
            }
        }
    }

    /// What was read of a block in a batch, decoded if that is wanted.
    fn decoded(&self, wanted: &Wanted, stored: BlockBuffer) -> Found {
        if wanted.is_stored {
            return Ok(Bytes::Read(stored));
        }
        let context = ReadContext {
            bookmark: wanted.bookmark,
            keys: self.keys.as_deref(),
        };
        let pipeline = self.cache.pipeline();
        let contents = pipeline.decode(&wanted.pointer, &stored, context)?;
        Ok(Bytes::Read(contents.unwrap_or(stored)))
    }
}

impl Job {
    fn run(mut self) {
        let is_cached =
            |wanted: &Wanted| !wanted.is_stored && self.reads.cache.has(&wanted.pointer);
        let mut order: Vec<usize> = (0..self.wanted.len())
            .filter(|index| !is_cached(&self.wanted[*index]))
            .collect();
        let place = |wanted: &Wanted| {
            let first = wanted.pointer.dva(0);
            (first.vdev().0, first.offset())
        };
        order.sort_by_key(|index| place(&self.wanted[*index]));
        let blocks = order.iter().map(|index| {
            let wanted = &self.wanted[*index];
            (wanted.pointer, wanted.bookmark)
        });
        let blocks: Vec<(BlockPointer, Bookmark)> = blocks.collect();
        let stored = self.reads.cache.read_stored_batch(&blocks);
        let mut found: Vec<Option<Found>> = self.wanted.iter().map(|_| None).collect();
        for (index, stored) in order.into_iter().zip(stored) {
            let wanted = &self.wanted[index];
            found[index] = stored.map(|stored| self.reads.decoded(wanted, stored));
        }
        for (wanted, found) in self.wanted.iter().zip(&mut found) {
            if found.is_none() {
                *found = Some(self.reads.alone(wanted));
            }
        }
        self.found = found;
    }
}

/// Bytes of blocks that may be ahead of a stream whose blocks come through `cache`.
fn bytes_ahead(cache: &BlockCache) -> u64 {
    let limits = cache.limits();
    let share = limits.stored.saturating_add(limits.decoded) / MEMORY_SHARE;
    share.clamp(GROUP_BYTES, BYTES_AHEAD_MAX)
}

/// Writes records in the order in which they are given, and reads their blocks ahead.
pub(super) struct Ahead<'a, W> {
    emitter: Emitter<'a, W>,
    reads: Arc<Reads>,
    queue: VecDeque<Step>,
    /// The group that gathers, and what is in it.
    group: Arc<Group>,
    wanted: Vec<Wanted>,
    wanted_bytes: u64,
    /// Bytes of blocks in the queue.
    bytes: u64,
    bytes_max: u64,
}

impl<'a, W: Write> Ahead<'a, W> {
    pub(super) fn new(
        writer: &'a mut Writer<W>,
        cache: &Arc<BlockCache>,
        keys: Option<Arc<ObjsetKeys>>,
    ) -> Self {
        Self {
            emitter: Emitter::new(writer),
            bytes_max: bytes_ahead(cache),
            reads: Arc::new(Reads {
                cache: Arc::clone(cache),
                keys,
            }),
            queue: VecDeque::new(),
            group: Arc::default(),
            wanted: Vec::new(),
            wanted_bytes: 0,
            bytes: 0,
        }
    }

    /// A record with its payload.
    pub(super) fn record(&mut self, record: &Record, payload: &[u8]) -> Result<(), StreamError> {
        match self.queue.is_empty() {
            true => self.emitter.record(record, payload),
            false => self.push(Step::Record(record.clone(), payload.to_vec())),
        }
    }

    pub(super) fn free(&mut self, free: Free) -> Result<(), StreamError> {
        self.push(Step::Free(free))
    }

    pub(super) fn redact(&mut self, redact: Redact) -> Result<(), StreamError> {
        self.push(Step::Redact(redact))
    }

    pub(super) fn free_objects(&mut self, range: FreeObjects) -> Result<(), StreamError> {
        self.push(Step::FreeObjects(range))
    }

    /// A block, in the shape in which it goes.
    pub(super) fn block(&mut self, shape: Shape, visit: &Visit) -> Result<(), StreamError> {
        let size = size_of(visit);
        while self.bytes > 0 && self.bytes.saturating_add(size) > self.bytes_max {
            self.pop()?;
        }
        let index = self.wanted.len();
        self.wanted.push(Wanted {
            pointer: visit.pointer,
            bookmark: visit.bookmark,
            is_stored: matches!(shape, Shape::Stored(_)),
        });
        self.wanted_bytes += size;
        self.bytes += size;
        let block = Box::new((shape, visit.clone()));
        let step = Step::Block(block, Arc::clone(&self.group), index);
        if self.wanted_bytes >= GROUP_BYTES || self.wanted.len() >= GROUP_BLOCKS {
            self.read_group();
        }
        self.push(step)
    }

    /// Writes all that waits.
    pub(super) fn finish(mut self) -> Result<(), StreamError> {
        while !self.queue.is_empty() {
            self.pop()?;
        }
        self.emitter.release()
    }

    fn push(&mut self, step: Step) -> Result<(), StreamError> {
        self.queue.push_back(step);
        let is_block = |step: &Step| matches!(step, Step::Block(..));
        // What has no block to wait for need not wait.
        while self.queue.len() > STEPS_MAX || self.queue.front().is_some_and(|it| !is_block(it)) {
            self.pop()?;
        }
        Ok(())
    }

    /// Starts reading the current group.
    fn read_group(&mut self) {
        let job = Job {
            group: std::mem::take(&mut self.group),
            wanted: std::mem::take(&mut self.wanted),
            reads: Arc::clone(&self.reads),
            found: Vec::new(),
        };
        self.wanted_bytes = 0;
        self.reads.cache.workers().run(move || job.run());
    }

    /// Writes the front of the queue.
    fn pop(&mut self) -> Result<(), StreamError> {
        match self.queue.pop_front() {
            None => Ok(()),
            Some(Step::Record(record, payload)) => self.emitter.record(&record, &payload),
            Some(Step::Free(free)) => self.emitter.free(free),
            Some(Step::Redact(redact)) => self.emitter.redact(redact),
            Some(Step::FreeObjects(range)) => self.emitter.free_objects(range),
            Some(Step::Block(block, group, index)) => {
                if Arc::ptr_eq(&group, &self.group) {
                    self.read_group();
                }
                let (shape, visit) = *block;
                self.bytes -= size_of(&visit);
                let found = group.take(index).unwrap_or_else(|| {
                    self.reads.alone(&Wanted {
                        pointer: visit.pointer,
                        bookmark: visit.bookmark,
                        is_stored: matches!(shape, Shape::Stored(_)),
                    })
                });
                let bytes = found.map_err(|error| unreadable(DmuError::from(error)))?;
                self.emit(shape, &visit, &bytes)
            }
        }
    }

    fn emit(&mut self, shape: Shape, visit: &Visit, bytes: &[u8]) -> Result<(), StreamError> {
        if !matches!(shape, Shape::Stored(_)) {
            visit.check_contents(bytes).map_err(unreadable)?;
        }
        match shape {
            Shape::Contents(record) => self.emitter.record(&record, bytes),
            Shape::Stored(mut record) => {
                match &mut record {
                    Record::Write(write) => write.compressed_size = bytes.len() as u64,
                    Record::Spill(spill) => spill.compressed_size = bytes.len() as u64,
                    _ => {}
                }
                self.emitter.record(&record, bytes)
            }
            Shape::Pieces(whole, size) => {
                for (index, piece) in bytes.chunks(size).enumerate() {
                    let record = WriteRecord {
                        offset: whole.offset + (index * size) as u64,
                        logical_size: piece.len() as u64,
                        ..*whole
                    };
                    self.emitter.record(&Record::Write(record), piece)?;
                }
                Ok(())
            }
        }
    }
}

/// What a block counts for: it is in memory as it is stored and expanded, for a moment.
fn size_of(visit: &Visit) -> u64 {
    let pointer = &visit.pointer;
    pointer.logical_size().max(pointer.physical_size())
}
