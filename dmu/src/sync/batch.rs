//! Blocks gathered for one call of the sink.
//!
//! The sink works on many blocks at once, so blocks of all objects go to it together, in order
//! of object and offset, some MiB at a time.

use super::job::{Job, SPILL};
use super::writer::Writer;
use crate::caching::is_metadata;
use crate::error::DmuError;
use crate::live::{Dirty, LiveObject};
use crate::policy::BlockKind;
use cenote_base::{BlockId, Bookmark, Level, Txg, settings};
use cenote_cache::{Block, Retention};
use cenote_io::{Form, WriteRequest};
use cenote_ondisk::{BlockPointer, ObjectType};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Contents of data in one call: the sink is idle for a moment between two, so they are few.
const BATCH_BYTES: usize = 128 << 20;
/// Data becomes clean a call at a time, and throttled writers proceed in steps as long. So a call
/// has at most this part of what may be dirty.
const BATCH_PART: u64 = 16;
/// Shorter calls would not keep the devices busy.
const BATCH_BYTES_MIN: usize = 4 << 20;
/// Contents of metadata in one call, which are made for it.
const BATCH_BYTES_METADATA: usize = 16 << 20;
/// Blocks in one call, which bounds the overhead of many small ones.
const BATCH_BLOCKS: usize = 8192;

fn batch_bytes() -> usize {
    let part = usize::try_from(settings::dirty_bytes_max() / BATCH_PART);
    part.unwrap_or(BATCH_BYTES)
        .clamp(BATCH_BYTES_MIN, BATCH_BYTES)
}

/// A block on its way.
struct Entry {
    job: usize,
    level: u8,
    block: u64,
    contents: Block,
    fill: u64,
    old: BlockPointer,
    /// Whether these are contents, and no stored bytes.
    is_contents: bool,
}

impl Entry {
    /// Asserts that the sink made a pointer to what it was given. A reader checks the same of each
    /// pointer against its place in the tree, and a wrong one is an error there.
    fn assert_written(&self, pointer: &BlockPointer, txg: Txg) {
        if pointer.is_hole() || *pointer == self.old {
            return;
        }
        assert_eq!(pointer.level(), Level(self.level), "a block's level");
        assert_eq!(pointer.logical_birth(), txg, "a block's birth");
        if self.is_contents {
            let size = self.contents.len() as u64;
            assert_eq!(pointer.logical_size(), size, "a block's size");
        }
        if !pointer.is_embedded() {
            assert_eq!(pointer.fill(), self.fill, "a block's fill count");
        }
    }
}

/// Blocks that wait for each other.
pub(super) struct Batch<'a, 'w> {
    writer: &'a Writer<'w>,
    /// By job: whose generation learns where its blocks went.
    live: &'a [Arc<LiveObject>],
    entries: Vec<Entry>,
    requests: Vec<WriteRequest>,
    bytes: usize,
}

impl<'a, 'w> Batch<'a, 'w> {
    pub(super) fn new(writer: &'a Writer<'w>, live: &'a [Arc<LiveObject>]) -> Self {
        Self {
            writer,
            live,
            entries: Vec::new(),
            requests: Vec::new(),
            bytes: 0,
        }
    }

    /// Adds a block of `jobs[job]`; writes what there is when it is enough.
    pub(super) fn add(
        &mut self,
        jobs: &mut [Job],
        place: (usize, u8, u64),
        contents: Block,
        fill: u64,
    ) -> Result<(), DmuError> {
        self.add_stored(jobs, place, contents, (fill, None))
    }

    /// The same of a block that may be stored bytes, with its fill count and how it was made.
    pub(super) fn add_stored(
        &mut self,
        jobs: &mut [Job],
        (job, level, block): (usize, u8, u64),
        contents: Block,
        (fill, form): (u64, Option<Form>),
    ) -> Result<(), DmuError> {
        let of = &mut jobs[job];
        let is_spill = level == 0 && block == SPILL;
        let old = match is_spill {
            true => of.base.dnode().spill.unwrap_or(BlockPointer::HOLE),
            false if of.is_freed(usize::from(level), block) => BlockPointer::HOLE,
            false => of.old_pointer(level, block)?,
        };
        let mut kind = BlockKind::of(&of.new, level, contents.len() as u64);
        if is_spill {
            kind.is_spill = true;
            kind.object_type = of.new.bonus_type;
        }
        let is_contents = !matches!(form, Some(Form::Stored(_)));
        let compressed = match &form {
            Some(Form::Compressed(form)) => form.bytes.len(),
            _ => 0,
        };
        let bytes = contents.len() + compressed;
        self.requests.push(WriteRequest {
            data: Arc::clone(&contents),
            bookmark: self.bookmark(of, level, block),
            object_type: kind.object_type,
            level: Level(level),
            fill,
            policy: self.writer.policy.policy(&kind),
            keys: self.writer.set.keys().cloned(),
            previous: (!old.is_hole()).then_some(old),
            form,
        });
        self.bytes += bytes;
        self.entries.push(Entry {
            job,
            level,
            block,
            contents,
            fill,
            old,
            is_contents,
        });
        let bytes_max = match self.live.is_empty() {
            true => BATCH_BYTES_METADATA,
            false => batch_bytes(),
        };
        if self.bytes >= bytes_max || self.entries.len() >= BATCH_BLOCKS {
            self.flush(jobs)?;
        }
        Ok(())
    }

    fn bookmark(&self, job: &Job, level: u8, block: u64) -> Bookmark {
        Bookmark {
            objset: self.writer.set.id(),
            object: job.base.id(),
            level: Level(level),
            block: BlockId(block),
        }
    }

    /// Writes what was gathered.
    pub(super) fn flush(&mut self, jobs: &mut [Job]) -> Result<(), DmuError> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let requests = std::mem::take(&mut self.requests);
        let entries = std::mem::take(&mut self.entries);
        self.bytes = 0;
        let written = self.writer.sink.write(self.writer.txg, requests);
        assert_eq!(written.len(), entries.len(), "each request has a result");
        let mut clean = 0;
        for (entry, written) in entries.into_iter().zip(written) {
            let mut pointer = written?;
            entry.assert_written(&pointer, self.writer.txg);
            let job = &mut jobs[entry.job];
            self.writer.set.cache().forget_replaced(&entry.old);
            if pointer.is_hole() {
                let size = entry.contents.len() as u64;
                pointer = job.hole_in_place_of(&entry.old, entry.level, size, self.writer);
            } else if entry.is_contents {
                let retention = retention(self.writer, job, self.live.get(entry.job), &entry);
                let cache = self.writer.set.cache();
                cache.insert_written(&pointer, Arc::clone(&entry.contents), retention);
            }
            if entry.block == SPILL && entry.level == 0 {
                job.set_spill(&entry.old, pointer, self.writer);
                continue;
            }
            if let (0, Some(live)) = (entry.level, self.live.get(entry.job)) {
                clean += note_written(live, entry.block, pointer);
            }
            job.updates[usize::from(entry.level)].insert(entry.block, pointer);
        }
        self.writer.live.remove_dirty_bytes(clean);
        Ok(())
    }
}

/// How long a block that was written stays in the cache.
fn retention(
    writer: &Writer<'_>,
    job: &Job,
    live: Option<&Arc<LiveObject>>,
    entry: &Entry,
) -> Retention {
    let is_metadata = entry.block == SPILL || is_metadata(job.new.object_type, entry.level);
    match live.is_some_and(|live| live.is_passing.load(Ordering::Relaxed)) && !is_metadata {
        true => Retention::Pass,
        false => writer.set.retention(is_metadata),
    }
}

/// Replaces a frozen block's contents by where they are now; returns the bytes that are clean.
fn note_written(live: &LiveObject, block: u64, pointer: BlockPointer) -> u64 {
    let mut state = live.write();
    let Some(frozen) = &mut state.frozen else {
        return 0;
    };
    let Some(dirty) = frozen.blocks.get_mut(&block) else {
        return 0;
    };
    let bytes = match dirty {
        Dirty::Contents(contents) => contents.len() as u64,
        Dirty::Compressed(both) => both.bytes(),
        Dirty::Pointer(_) => return 0,
    };
    *dirty = Dirty::Pointer(Box::new(pointer));
    frozen.dirty_bytes -= bytes;
    bytes
}

impl Job {
    fn set_spill(&mut self, old: &BlockPointer, pointer: BlockPointer, writer: &Writer<'_>) {
        self.exchange(old, &pointer, writer);
        self.new.spill = Some(pointer);
    }
}

/// The kind of an object set block.
pub(super) fn objset_kind(size: usize) -> BlockKind {
    BlockKind {
        object_type: ObjectType::OBJSET,
        level: Level(0),
        is_spill: false,
        logical_size: size as u64,
        checksum: None,
        compression: None,
    }
}
