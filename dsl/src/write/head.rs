//! Heads open for writing: what their blocks are born and die as (format/3a 5).
//!
//! The object set writes its dirty blocks through a sink. The sink adds up what is born; of what
//! dies it frees what no snapshot holds and buries the rest in the deadlist. When the object set
//! is through, the sums go to the dataset, to its previous snapshot, and up the directories.

use super::blocks::accounting::{Part, SpaceChange, changed, signed};
use super::context::SyncContext;
use super::open_head::Head;
use super::policy::feature_of_checksum;
use super::snapshots::bookmark::BookmarkSum;
use super::streams::resume_point::ResumePoint;
use crate::error::DslError;
use cenote_base::rt::{Mutex, MutexGuard, ranks};
use cenote_base::{ObjectId, Txg};
use cenote_intent_log::LogSync;
use cenote_io::{BlockSink, IoError, WriteRequest};
use cenote_ondisk::dsl_dataset::{DslDataset, fields};
use cenote_ondisk::features;
use cenote_ondisk::{BlockPointer, CompressionKind, ObjectType};
use std::collections::BTreeSet;

/// Dead blocks that are gathered before they are written to the deadlist: half a MiB of them.
const DEAD_BATCH: usize = 4096;

/// Blocks above this need the feature `large_blocks`.
const OLD_BLOCK_SIZE_MAX: u64 = 128 << 10;
const DNODE_SIZE: usize = 512;
/// The byte of a dnode that counts its further slots.
const DNODE_EXTRA_SLOTS: usize = 12;

impl Head {
    /// Writes what is dirty and accounts it.
    ///
    /// # Errors
    /// If blocks cannot be written, or the pool's metadata cannot be read.
    pub fn sync(&self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let (_, phys) = context.dsl.read_dataset(self.id())?;
        let policy = self.policy();
        let sink = HeadSink::new(context, &phys)?;
        self.sync_log(context)?;
        let root = self.set().sync(context.txg(), &sink, &*policy)?;
        let sums = sink.finish()?;
        self.account(context, phys, root, &sums)?;
        self.free_logs(context)?;
        if let Some(point) = self.resume_points.take(context.txg()) {
            context.store_resume_point(self.id(), point)?;
        }
        let mut features = std::mem::take(&mut *self.features());
        features.extend(sums.features);
        for guid in features {
            self.activate(context, guid)?;
        }
        Ok(())
    }

    /// The log writer's part in the context's group.
    fn sync_log(&self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let Some(writer) = self.log() else {
            return Ok(());
        };
        let LogSync { header, freed } = writer.sync(context.txg());
        if let Some(header) = header {
            self.set()
                .set_intent_log_header(context.tx, header.encode())?;
            // While there is a chain, it may have records of extended attributes.
            let is_known = context.dsl.has_feature(features::ZILSAXATTR);
            match header.log.is_hole() {
                true => context.forget_dataset_feature(self.id(), features::ZILSAXATTR)?,
                false if is_known => self.activate(context, features::ZILSAXATTR)?,
                false => {}
            }
        }
        freed
            .iter()
            .try_for_each(|pointer| context.release(pointer))
    }

    fn account(
        &self,
        context: &SyncContext<'_>,
        mut phys: DslDataset,
        root: BlockPointer,
        sums: &Sums,
    ) -> Result<(), DslError> {
        let own = sums.born.plus(sums.freed.negated());
        let reserved = self.policy().refreservation;
        let before = phys.unique_bytes.max(reserved);
        let after = changed(phys.unique_bytes, own.used).max(reserved);
        let change = SpaceChange {
            used: signed(after) - signed(before),
            ..own
        };
        let (from, to) = (Part::Refreservation, Part::Head);
        context.transfer_space(self.directory(), change, own.used, from, to)?;
        let referenced = own.plus(sums.buried.negated());
        phys.referenced_bytes = changed(phys.referenced_bytes, referenced.used);
        phys.compressed_bytes = changed(phys.compressed_bytes, referenced.compressed);
        phys.uncompressed_bytes = changed(phys.uncompressed_bytes, referenced.uncompressed);
        phys.unique_bytes = changed(phys.unique_bytes, own.used);
        phys.block_pointer = root;
        context.store_dataset(self.id(), &phys)?;
        if sums.snapshot_unique != 0
            && let Some(previous) = phys.previous_snapshot
        {
            context.change_dataset(previous, |phys| {
                phys.unique_bytes = changed(phys.unique_bytes, sums.snapshot_unique);
            })?;
        }
        if sums.to_snapshots != 0 {
            let (from, to) = (Part::Head, Part::Snapshots);
            context.move_space(self.directory(), sums.to_snapshots, from, to)?;
        }
        context.freed_before_next_snapshot(self.id(), &sums.bookmarks)?;
        context.trim_livelist(self.directory(), phys.referenced_bytes)
    }

    /// Notes once that the dataset uses a feature (format/3a 1).
    fn activate(&self, context: &SyncContext<'_>, guid: &str) -> Result<(), DslError> {
        context.use_dataset_feature(self.id(), guid)
    }
}

/// What was born and what died in one sync of a head.
#[derive(Debug, Default)]
struct Sums {
    born: SpaceChange,
    freed: SpaceChange,
    buried: SpaceChange,
    /// What only the previous snapshot holds from now on.
    snapshot_unique: i64,
    /// What leaves the head's share of the directory for the snapshots'.
    to_snapshots: i64,
    features: BTreeSet<&'static str>,
    /// By bookmark: its txg, its name, and what died of its snapshot.
    bookmarks: Vec<BookmarkSum>,
    dead: Vec<BlockPointer>,
    live: LiveNotes,
    failure: Option<DslError>,
}

/// Pending entries for a clone's livelist.
#[derive(Debug, Default)]
struct LiveNotes {
    born: Vec<BlockPointer>,
    given_up: Vec<BlockPointer>,
}

impl LiveNotes {
    fn count(&self) -> usize {
        self.born.len() + self.given_up.len()
    }
}

/// Where a head's blocks go.
struct HeadSink<'a> {
    context: &'a SyncContext<'a>,
    previous_txg: Txg,
    deadlist: ObjectId,
    /// Blocks born after this are the previous snapshot's own, if it is in this directory.
    before_previous: Option<Txg>,
    origin_txg: Txg,
    /// Where a clone writes down what is its own.
    livelist: Option<ObjectId>,
    sums: Mutex<Sums, ranks::HeadSums>,
}

impl<'a> HeadSink<'a> {
    fn new(context: &'a SyncContext<'a>, phys: &DslDataset) -> Result<Self, DslError> {
        let id = phys.directory;
        let mut before_previous = None;
        if let Some(previous) = phys.previous_snapshot {
            let (_, snapshot) = context.dsl.read_dataset(previous)?;
            // A clone's first previous snapshot is its origin, which counts it among its clones.
            if snapshot.directory == id {
                before_previous = Some(snapshot.previous_snapshot_txg);
            }
        }
        let sums = Sums {
            bookmarks: context.counting_bookmarks(phys)?,
            ..Sums::default()
        };
        Ok(Self {
            context,
            previous_txg: phys.previous_snapshot_txg,
            deadlist: phys.deadlist,
            before_previous,
            origin_txg: context.origin_txg(id)?,
            livelist: context.open_livelist(id)?,
            sums: Mutex::new(sums),
        })
    }

    fn sums(&self) -> MutexGuard<'_, Sums> {
        self.sums.lock()
    }

    fn born(&self, request: &Written, pointer: &BlockPointer) {
        if request.previous == Some(*pointer) {
            return;
        }
        let mut sums = self.sums();
        let space = self.context.dsl.space_of_block(pointer);
        sums.born = sums.born.plus(SpaceChange::from(space));
        if let Some(replaced) = request.previous
            && takes_over(&replaced, pointer)
        {
            let space = self.context.dsl.space_of_block(&replaced);
            sums.born = sums.born.plus(SpaceChange::from(space).negated());
            self.note_given_up(&mut sums, &replaced);
            // In the list it is to stand before what is born in its place.
            self.store_live(&mut sums);
        }
        self.note_born(&mut sums, pointer);
        sums.features.extend(features_of(pointer));
        if request.has_large_dnodes {
            sums.features.insert(features::LARGE_DNODE);
        }
    }

    /// Whether a block belongs in the livelist.
    fn is_own(&self, pointer: &BlockPointer) -> bool {
        self.livelist.is_some()
            && !pointer.is_embedded()
            && !pointer.is_hole()
            && !pointer.is_redacted()
            && pointer.accounting_birth() > self.origin_txg
    }

    fn note_born(&self, sums: &mut Sums, pointer: &BlockPointer) {
        if self.is_own(pointer) {
            sums.live.born.push(*pointer);
            self.store_some_live(sums);
        }
    }

    fn note_given_up(&self, sums: &mut Sums, pointer: &BlockPointer) {
        if self.is_own(pointer) {
            sums.live.given_up.push(*pointer);
            self.store_some_live(sums);
        }
    }

    fn store_some_live(&self, sums: &mut Sums) {
        if sums.live.count() >= DEAD_BATCH {
            self.store_live(sums);
        }
    }

    /// Puts what was noted into the livelist.
    fn store_live(&self, sums: &mut Sums) {
        let live = std::mem::take(&mut sums.live);
        let Some(livelist) = self.livelist else {
            return;
        };
        let (born, given_up) = (&live.born, &live.given_up);
        if let Err(error) = self.context.note_in_livelist(livelist, born, given_up) {
            sums.failure.get_or_insert(error);
        }
    }

    fn died(&self, pointer: &BlockPointer) -> Result<(), DslError> {
        let space = self.context.dsl.space_of_block(pointer);
        let birth = pointer.accounting_birth();
        let mut sums = self.sums();
        self.note_given_up(&mut sums, pointer);
        for bookmark in &mut sums.bookmarks {
            if birth <= bookmark.txg {
                bookmark.space = bookmark.space.plus(space);
            }
        }
        if birth > self.previous_txg {
            sums.freed = sums.freed.plus(SpaceChange::from(space));
            drop(sums);
            return self.context.release(pointer);
        }
        let used = signed(space.used);
        if self.before_previous.is_some_and(|before| birth > before) {
            sums.snapshot_unique = sums.snapshot_unique.saturating_add(used);
        }
        if birth > self.origin_txg {
            sums.to_snapshots = sums.to_snapshots.saturating_add(used);
        }
        sums.buried = sums.buried.plus(SpaceChange::from(space));
        sums.dead.push(*pointer);
        if sums.dead.len() < DEAD_BATCH {
            return Ok(());
        }
        let dead = std::mem::take(&mut sums.dead);
        drop(sums);
        self.context.bury(self.deadlist, &dead)
    }

    fn finish(self) -> Result<Sums, DslError> {
        let mut sums = std::mem::take(&mut *self.sums());
        self.store_live(&mut sums);
        if let Some(failure) = sums.failure.take() {
            return Err(failure);
        }
        if !sums.dead.is_empty() {
            let dead = std::mem::take(&mut sums.dead);
            self.context.bury(self.deadlist, &dead)?;
        }
        Ok(sums)
    }
}

/// What must be remembered of a request while its block is written.
struct Written {
    previous: Option<BlockPointer>,
    has_large_dnodes: bool,
}

impl BlockSink for HeadSink<'_> {
    fn write(&self, txg: Txg, requests: Vec<WriteRequest>) -> Vec<Result<BlockPointer, IoError>> {
        let written: Vec<Written> = requests.iter().map(remember).collect();
        let pool = self.context.pool;
        let results = pool.writer().write(txg, pool.pass(), requests);
        for (written, result) in written.iter().zip(&results) {
            if let Ok(pointer) = result {
                self.born(written, pointer);
            }
        }
        results
    }

    fn adopt(&self, txg: Txg, pointer: &BlockPointer) {
        let space = self.context.dsl.space_of_block(pointer);
        let mut sums = self.sums();
        sums.born = sums.born.plus(SpaceChange::from(space));
        sums.features.extend(features_of(pointer));
        self.note_born(&mut sums, pointer);
        drop(sums);
        // What was written for this very place has no other reference yet.
        if !pointer.is_embedded() && pointer.physical_birth() != txg {
            self.context.pool.share(pointer);
        }
    }

    fn free(&self, _: Txg, pointer: &BlockPointer) {
        if pointer.is_hole() || pointer.is_redacted() {
            return;
        }
        if let Err(error) = self.died(pointer) {
            self.sums().failure.get_or_insert(error);
        }
    }
}

fn remember(request: &WriteRequest) -> Written {
    let is_dnodes = request.object_type == ObjectType::DNODE && request.level.0 == 0;
    Written {
        previous: request.previous,
        has_large_dnodes: is_dnodes && has_large_dnodes(&request.data),
    }
}

/// Whether a block was written in the place of another.
fn takes_over(replaced: &BlockPointer, pointer: &BlockPointer) -> bool {
    !replaced.is_hole()
        && !replaced.is_embedded()
        && !pointer.is_hole()
        && !pointer.is_embedded()
        && replaced.physical_birth() == pointer.physical_birth()
        && replaced.logical_birth() == pointer.logical_birth()
        && replaced.words[..2] == pointer.words[..2]
}

fn has_large_dnodes(block: &[u8]) -> bool {
    let mut at = 0;
    while at < block.len() {
        let extra = match block[at] {
            0 => 0,
            _ => usize::from(block[at + DNODE_EXTRA_SLOTS]),
        };
        if extra > 0 {
            return true;
        }
        at += DNODE_SIZE;
    }
    false
}

/// The features that a dataset with this block uses (format/3a 1).
fn features_of(pointer: &BlockPointer) -> impl Iterator<Item = &'static str> {
    let large = (pointer.logical_size() > OLD_BLOCK_SIZE_MAX).then_some(features::LARGE_BLOCKS);
    let kind = match pointer.is_embedded() {
        true => None,
        false => pointer.checksum_kind(),
    };
    let checksum = kind.and_then(feature_of_checksum);
    let zstd = match pointer.compression() {
        Some(CompressionKind::Zstd) => Some(features::ZSTD_COMPRESS),
        _ => None,
    };
    [large, checksum, zstd].into_iter().flatten()
}

impl SyncContext<'_> {
    /// Frees a block now, or notes it for later where that may be costly (format/3a 5).
    pub(crate) fn release(&self, pointer: &BlockPointer) -> Result<(), DslError> {
        if pointer.is_embedded() || pointer.is_hole() {
            return Ok(());
        }
        self.pool.free(self.txg(), pointer)
    }

    /// Stores how far the stream of the dataset `id` has come.
    pub(super) fn store_resume_point(
        &self,
        id: ObjectId,
        point: ResumePoint,
    ) -> Result<(), DslError> {
        self.set_extension(id, fields::RESUME_OBJECT, point.object.0)?;
        self.set_extension(id, fields::RESUME_OFFSET, point.offset)?;
        self.set_extension(id, fields::RESUME_BYTES, point.bytes)
    }

    /// Stores a dataset's structure.
    pub(crate) fn store_dataset(&self, id: ObjectId, phys: &DslDataset) -> Result<(), DslError> {
        let object = self.mos().object(id)?;
        object.set_bonus(self.tx, ObjectType::DSL_DATASET, phys.encode().to_vec())?;
        self.dsl.rooms().stage_dataset(id, phys);
        Ok(())
    }

    /// Changes a dataset's structure.
    pub(crate) fn change_dataset(
        &self,
        id: ObjectId,
        change: impl FnOnce(&mut DslDataset),
    ) -> Result<(), DslError> {
        let (_, mut phys) = self.dsl.read_dataset(id)?;
        change(&mut phys);
        self.store_dataset(id, &phys)
    }

    /// The creation of the snapshot that a directory's head was cloned from; 0 if it is no clone.
    pub(crate) fn origin_txg(&self, directory: ObjectId) -> Result<Txg, DslError> {
        let phys = self.directory(directory)?;
        match phys.origin {
            Some(origin) if Some(origin) != self.dsl.origin_snapshot() => {
                Ok(self.dsl.read_dataset(origin)?.1.creation_txg)
            }
            _ => Ok(Txg(0)),
        }
    }
}
