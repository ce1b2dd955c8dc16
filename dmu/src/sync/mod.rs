//! Syncing: one transaction group's changes to an object set become blocks.
//!
//! From the bottom up: the data of all changed objects, then their indirect blocks level by
//! level, then the blocks of dnodes with their own tree, then the object set block. What was
//! replaced or freed is given to the sink. Meanwhile the set is read and changed as ever: the
//! frozen generation stays visible until its blocks are written.
//!
//! An error leaves the set as it was, half of it written: the pool is then suspended.

mod batch;
mod charge;
mod dnodes;
mod frees;
mod job;
mod writer;

use crate::error::DmuError;
use crate::live::{Dirty, DirtySpill, LiveObject, LiveSet, LiveState};
use crate::object::Object;
use crate::object_set::{ObjectSet, SpecialObject};
use crate::policy::PolicySource;
use batch::{Batch, objset_kind};
use cenote_base::{BlockId, Bookmark, Level, Txg};
use cenote_cache::{Block, BlockBuffer};
use cenote_io::{BlockSink, Form, IoContext, WriteRequest};
use cenote_ondisk::dnode::FLAG_SPILL_BLKPTR;
use cenote_ondisk::objset::OBJSET_SIZE;
use cenote_ondisk::{BlockPointer, Dnode, ObjectType, Objset};
use job::{Job, SPILL, entry, set_entry};
use std::collections::BTreeMap;
use std::sync::Arc;
use writer::Writer;

/// What a changed object became.
struct Outcome {
    live: Arc<LiveObject>,
    /// As it was on disk.
    old: Option<Arc<Dnode>>,
    new: Option<Dnode>,
}

impl ObjectSet {
    /// Writes the changes of `txg`, which is frozen, and returns the set's new root.
    ///
    /// May be called again for the same group: the meta object set changes while it is synced.
    pub fn sync(
        self: &Arc<Self>,
        txg: Txg,
        sink: &dyn BlockSink,
        policy: &dyn PolicySource,
    ) -> Result<BlockPointer, DmuError> {
        // The purpose is syncing, whatever thread changed the set: the whole group waits for these
        // reads.
        let syncing = self.for_io(&IoContext::SYNCING);
        syncing.sync_changes(txg, sink, policy)
    }

    fn sync_changes(
        self: &Arc<Self>,
        txg: Txg,
        sink: &dyn BlockSink,
        policy: &dyn PolicySource,
    ) -> Result<BlockPointer, DmuError> {
        let live = self.live.as_ref();
        let live = live.ok_or(DmuError::ReadOnly { objset: self.id() })?;
        let root = self.root();
        let dirty = live.take_dirty(txg);
        if dirty.is_none() && !root.is_hole() {
            return Ok(root);
        }
        let writer = Writer {
            set: self,
            live,
            txg,
            sink,
            policy,
        };
        let mut committed = self.committed();
        let mut header = Objset::clone(&committed.header);
        writer.take_header_changes(&mut header);
        let mut outcomes = writer.write_objects(dirty.unwrap_or_default())?;
        writer.charge_owners(&header, &mut outcomes)?;
        let of_objects = outcomes.len();
        if let Some(accounts) = live.take_dirty(txg) {
            outcomes.extend(writer.write_objects(accounts)?);
        }
        writer.put_special(&mut header, &outcomes[of_objects..]);
        outcomes.retain(|outcome| SpecialObject::from_id(outcome.live.id).is_none());
        writer.write_dnodes(&mut header, &outcomes)?;
        committed.root = writer.write_header(&header, &mut committed.header_size, &root)?;
        committed.header = Arc::new(header);
        let root = committed.root;
        self.set_committed(committed);
        // Only now may objects leave the table: their dnodes can be read from disk.
        drop(outcomes);
        Ok(root)
    }
}

impl Writer<'_> {
    fn take_header_changes(&self, header: &mut Objset) {
        let mut change = self.live.header.lock();
        if let Some(flags) = change.flags.take() {
            header.flags = flags;
        }
        if let Some(log) = change.take_intent_log_header(self.txg) {
            header.intent_log_header = log;
        }
        if let Some(raw) = self.live.raw.get() {
            // Without keys the owners of objects are unknown, and earlier counts are out of date.
            header.portable_mac = raw.lock().header.portable_mac;
            (header.local_mac, header.flags) = ([0; 32], 0);
        }
    }

    /// Writes the trees of objects and commits their dnodes.
    fn write_objects(&self, dirty: Vec<Arc<LiveObject>>) -> Result<Vec<Outcome>, DmuError> {
        let mut jobs = Vec::new();
        let mut alive = Vec::new();
        let mut outcomes = Vec::new();
        for live in dirty {
            let old = {
                let mut state = live.write();
                state.freeze(self.txg);
                let frozen = state.frozen.as_ref();
                assert!(
                    frozen.is_none_or(|frozen| frozen.txg == self.txg),
                    "changes of one group are written with it"
                );
                state.committed.clone()
            };
            if let Some(job) = self.begin(&live, old.as_ref())? {
                jobs.push(job);
                alive.push(outcomes.len());
            }
            let new = None;
            outcomes.push(Outcome { live, old, new });
        }
        let lives: Vec<_> = alive
            .iter()
            .map(|i| Arc::clone(&outcomes[*i].live))
            .collect();
        self.write_data(&mut jobs, &lives)?;
        self.write_indirects(&mut jobs)?;
        for (mut job, index) in jobs.into_iter().zip(alive) {
            job.finish(self);
            outcomes[index].new = Some(job.new);
        }
        Ok(outcomes)
    }

    /// Prepares an object's job and frees what it freed; `None` if nothing of it is left.
    fn begin(
        &self,
        live: &Arc<LiveObject>,
        committed: Option<&Arc<Dnode>>,
    ) -> Result<Option<Job>, DmuError> {
        let (is_replaced, new, freed) = {
            let state = live.read();
            let Some(frozen) = &state.frozen else {
                return Ok(None);
            };
            let freed: Vec<_> = frozen.freed.iter().collect();
            (frozen.is_replaced, frozen.dnode.clone(), freed)
        };
        let object =
            |dnode: Arc<Dnode>| Object::new(Arc::clone(self.set), live.id, Dnode::clone(&dnode));
        if is_replaced && let Some(old) = committed {
            let dnode = Dnode::clone(old);
            Job::new(object(Arc::clone(old)), dnode).free_all(self)?;
        }
        let Some(new) = new else {
            return Ok(None);
        };
        let base = match committed {
            Some(old) if !is_replaced => Arc::clone(old),
            _ => blank(&new),
        };
        let mut job = Job::new(object(base), Dnode::clone(&new));
        for (start, end) in freed {
            job.free_range(start, end, self)?;
        }
        Ok(Some(job))
    }

    /// Writes all changed data and spill blocks.
    fn write_data(&self, jobs: &mut [Job], lives: &[Arc<LiveObject>]) -> Result<(), DmuError> {
        let mut batch = Batch::new(self, lives);
        for (index, live) in lives.iter().enumerate() {
            let mut from = 0;
            loop {
                // A few at a time, so that written blocks are not kept by this list.
                let blocks = some_blocks(&live.read(), from);
                let Some((last, _)) = blocks.last() else {
                    break;
                };
                let next = last.checked_add(1);
                jobs[index].read_ahead_parents(blocks.iter().map(|(block, _)| *block));
                for (block, dirty) in blocks {
                    match dirty {
                        Dirty::Contents(contents) => {
                            let form = form_of(live, block);
                            batch.add_stored(jobs, (index, 0, block), contents, (1, form))?;
                        }
                        Dirty::Compressed(both) => {
                            let form = (1, Some(Form::Compressed(both.form)));
                            batch.add_stored(jobs, (index, 0, block), both.contents, form)?;
                        }
                        Dirty::Pointer(pointer) => {
                            if !pointer.is_hole() {
                                let birth = pointer.logical_birth();
                                assert!(birth <= self.txg, "a block of a later group");
                                self.sink.adopt(self.txg, &pointer);
                            }
                            jobs[index].updates[0].insert(block, *pointer);
                        }
                    }
                }
                match next {
                    Some(next) => from = next,
                    None => break,
                }
            }
            let spill = {
                let state = live.read();
                let frozen = state.frozen.as_ref().expect("it has a job");
                frozen.spill.clone()
            };
            let job = &mut jobs[index];
            let old = job.base.dnode().spill;
            match spill {
                DirtySpill::Unchanged => job.new.spill = old,
                DirtySpill::Removed => {
                    job.new.spill = None;
                    job.new.flags &= !FLAG_SPILL_BLKPTR;
                    if let Some(old) = old {
                        job.free_block(&old, self);
                    }
                }
                DirtySpill::Contents(contents) => {
                    let form = form_of(live, SPILL);
                    batch.add_stored(jobs, (index, 0, SPILL), contents, (1, form))?;
                }
            }
        }
        batch.flush(jobs)
    }

    /// Writes the indirect blocks above all updates, level by level.
    fn write_indirects(&self, jobs: &mut [Job]) -> Result<(), DmuError> {
        let levels = jobs.iter().map(|job| job.new.levels).max().unwrap_or(1);
        for level in 1..levels {
            let mut batch = Batch::new(self, &[]);
            for index in 0..jobs.len() {
                if level >= jobs[index].new.levels {
                    continue;
                }
                let below = std::mem::take(&mut jobs[index].updates[usize::from(level - 1)]);
                for (parent, children) in by_parent(below, &jobs[index]) {
                    let job = &mut jobs[index];
                    match self.build_indirect(job, level, parent, children)? {
                        Built::Contents(contents, fill) => {
                            batch.add(jobs, (index, level, parent), contents, fill)?;
                        }
                        Built::Hole(hole) => {
                            job.updates[usize::from(level)].insert(parent, hole);
                        }
                    }
                }
            }
            batch.flush(jobs)?;
        }
        Ok(())
    }

    fn build_indirect(
        &self,
        job: &mut Job,
        level: u8,
        block: u64,
        children: Vec<(u64, BlockPointer)>,
    ) -> Result<Built, DmuError> {
        let fanout = job.new.indirect_fanout_shift();
        let mut contents = job.base_contents(level, block, self)?;
        for (child, new) in children {
            let index = usize::try_from(child & ((1 << fanout) - 1)).expect("below 1024");
            let old = entry(&contents, index);
            job.replace(usize::from(level - 1), child, &old, &new, self);
            set_entry(&mut contents, index, &new);
        }
        let count = 1_usize << fanout;
        let entries = || (0..count).map(|index| entry(&contents, index));
        let fill = sum_of_fills(entries());
        if entries().any(|pointer| !pointer.is_hole()) {
            return Ok(Built::Contents(Arc::new(contents), fill));
        }
        let size = job.new.indirect_block_size();
        let old = job.old_pointer(level, block)?;
        let is_untouched = contents.iter().all(|byte| *byte == 0);
        let hole = match is_untouched || !self.has_hole_births(&job.new) {
            true => job.hole_in_place_of(&old, level, size, self),
            false => job.hole(level, size, self.txg),
        };
        Ok(Built::Hole(hole))
    }

    fn put_special(&self, header: &mut Objset, outcomes: &[Outcome]) {
        for outcome in outcomes {
            let place = match SpecialObject::from_id(outcome.live.id) {
                Some(SpecialObject::UserUsed) => &mut header.user_used,
                Some(SpecialObject::GroupUsed) => &mut header.group_used,
                Some(SpecialObject::ProjectUsed) => &mut header.project_used,
                None => continue,
            };
            place.clone_from(&outcome.new);
            commit(&outcome.live, outcome.new.clone(), self.live);
        }
    }

    /// Writes the object set block.
    fn write_header(
        &self,
        header: &Objset,
        size: &mut usize,
        old: &BlockPointer,
    ) -> Result<BlockPointer, DmuError> {
        if header.project_used.is_some() || header.user_used.is_some() {
            // A block of old software is enlarged when there is something to put there.
            *size = (*size).max(match header.project_used.is_some() {
                true => OBJSET_SIZE,
                false => 2048,
            });
        }
        let contents: Block = Arc::new(BlockBuffer::from(header.encode(*size)));
        let pointers = header.meta_dnode.block_pointers.iter();
        let request = WriteRequest {
            data: Arc::clone(&contents),
            bookmark: Bookmark {
                objset: self.set.id(),
                ..Bookmark::default()
            },
            object_type: ObjectType::OBJSET,
            level: Level(0),
            fill: sum_of_fills(pointers.copied()),
            policy: self.policy.policy(&objset_kind(*size)),
            keys: self.set.keys().cloned(),
            previous: (!old.is_hole()).then_some(*old),
            form: None,
        };
        let mut written = self.sink.write(self.txg, vec![request]);
        let root = written.pop().expect("each request has a result")?;
        if root != *old && !old.is_hole() && root.dva(0) != old.dva(0) {
            self.sink.free(self.txg, old);
        }
        // Of an encrypted set the block that was stored has MACs, which these contents have not.
        if !root.uses_crypt() {
            let retention = self.set.retention(true);
            self.set.cache().insert_written(&root, contents, retention);
        }
        Ok(root)
    }
}

/// What a block says of those below it. The pointers of blocks that did not change may say
/// anything.
fn sum_of_fills(pointers: impl Iterator<Item = BlockPointer>) -> u64 {
    pointers.fold(0, |sum, pointer| sum.saturating_add(pointer.fill()))
}

enum Built {
    Contents(Block, u64),
    Hole(BlockPointer),
}

/// A dnode like `new` whose object has nothing on disk.
fn blank(new: &Arc<Dnode>) -> Arc<Dnode> {
    let mut blank = Dnode::clone(new);
    blank.block_pointers.fill(BlockPointer::HOLE);
    blank.levels = 1;
    blank.used = 0;
    blank.block_id_max = BlockId(0);
    blank.spill = None;
    blank.flags &= !FLAG_SPILL_BLKPTR;
    Arc::new(blank)
}

/// So many blocks of one object are examined under its lock at once.
const LOOK_COUNT: usize = 1024;

/// The next changed blocks of a frozen generation.
fn some_blocks(state: &LiveState, from: u64) -> Vec<(u64, Dirty)> {
    let frozen = state.frozen.as_ref().expect("it has a job");
    let blocks = frozen.blocks.range(from..).take(LOOK_COUNT);
    blocks
        .map(|(block, dirty)| (*block, dirty.clone()))
        .collect()
}

/// How a frozen block was made, if it is stored bytes.
fn form_of(live: &LiveObject, block: u64) -> Option<Form> {
    let state = live.read();
    let form = state.frozen.as_ref()?.forms.get(&block).copied()?;
    Some(Form::Stored(form))
}

/// Updates grouped by the indirect block above them.
fn by_parent(
    updates: BTreeMap<u64, BlockPointer>,
    job: &Job,
) -> Vec<(u64, Vec<(u64, BlockPointer)>)> {
    let fanout = job.new.indirect_fanout_shift();
    let mut groups: Vec<(u64, Vec<(u64, BlockPointer)>)> = Vec::new();
    for (block, pointer) in updates {
        let parent = block >> fanout;
        match groups.last_mut() {
            Some((last, children)) if *last == parent => children.push((block, pointer)),
            _ => groups.push((parent, vec![(block, pointer)])),
        }
    }
    groups
}

/// Makes `new` the dnode on disk and drops the frozen generation.
fn commit(object: &LiveObject, new: Option<Dnode>, live: &LiveSet) {
    let mut state = object.write();
    let bytes = state.frozen.take().map_or(0, |frozen| frozen.dirty_bytes);
    if let (Some(new), Some(open)) = (&new, &mut state.open) {
        open.take_tree_of(new);
    }
    state.committed = new.map(Arc::new);
    drop(state);
    live.remove_dirty_bytes(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fill counts of blocks that did not change come from the disk.
    #[test]
    fn absurd_fill_counts_do_not_overflow() {
        let mut pointer = BlockPointer::HOLE;
        (pointer.words[1], pointer.words[11]) = (8, u64::MAX);
        assert_eq!(pointer.fill(), u64::MAX);
        let all = [pointer, BlockPointer::HOLE, pointer];
        assert_eq!(sum_of_fills(all.into_iter()), u64::MAX);
    }
}
