//! The walk in the order of addresses: see [the module](super) for the idea.
//!
//! Reading is done by all workers at once, through a [`Reader`] that they share; everything else by
//! the thread that walks, which alone holds the [`Visitor`], so that this needs no locks. A batch
//! of the stack, or a round of groups of data, is read at a time; between two of them the visitor
//! may stop the walk, and what is left of the lists is all that there is to store.

use super::order;
use super::seen::Seen;
use super::visit::{Root, Start, Visit};
use crate::error::DmuError;
use cenote_base::{BlockId, Bookmark, ObjectId};
use cenote_cache::{Block, BlockCache, Retention};
use cenote_io::{ReadContext, Workers};
use cenote_ondisk::Dnode;
use std::sync::Arc;

/// What reads blocks, on many threads.
pub trait Reader: Clone + Send + Sync + 'static {
    /// What reading a block found out: its contents, or what is wrong with it.
    type Found: Send + 'static;

    /// Reads a block that [leads on](Visit::leads_on).
    fn read(&self, visit: &Visit, root: &Root) -> Self::Found;

    /// Reads blocks that do not lead on and lie close together, in the order of their addresses.
    /// The answers are in the same order.
    fn read_group(&self, group: &[Visit], roots: &[Root]) -> Vec<Self::Found>;
}

/// Steers a walk, and takes what it finds.
pub trait Visitor {
    /// What reads for it.
    type Reader: Reader;

    /// What reads for it.
    fn reader(&self) -> Self::Reader;

    /// Whether a block is wanted that was just found and is young enough: what is not is gone
    /// by, with all below it. Blocks of one parent come one after another.
    fn wants(&mut self, visit: &Visit) -> bool;

    /// Whether a wanted block is to be read, now that its turn has come: what is not is gone
    /// by, with all below it.
    fn admit(&mut self, visit: &Visit) -> bool;

    /// Takes what reading a block found; returns the contents of one that leads on, if it is to be
    /// gone into.
    fn found(&mut self, visit: &Visit, found: <Self::Reader as Reader>::Found) -> Option<Block>;

    /// Takes damage that the walk itself met: a pointer that does not fit its place, or contents
    /// that do not decode. The walk continues behind it.
    fn damaged(&mut self, visit: &Visit, error: DmuError);

    /// Whether to continue; called before each batch. `root` is the latest root begun, if any.
    fn goes_on(&mut self, root: Option<usize>) -> bool;

    /// Called after each round of data.
    fn progressed(&mut self, root: Option<usize>);
}

/// How much is read at once, and how much is remembered.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Blocks of the stack read at once. An indirect block has at most 1024 children, so one batch
    /// of 64 adds at most 64 Ki visits.
    pub batch: usize,
    /// Data blocks that gather before they are read: at 128 KiB each, 32 Ki are 4 GiB worth of
    /// disk.
    pub leaves: usize,
    /// Stored bytes that one worker reads at a time.
    pub group_bytes: u64,
    /// Groups in a round.
    pub groups: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            batch: 64,
            leaves: 32 * 1024,
            group_bytes: 4 << 20,
            groups: 16,
        }
    }
}

/// Why a walk paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Nothing is left.
    Finished,
    /// The visitor said so.
    Stopped,
}

/// A walk in the order of addresses, and all that is left of it.
#[derive(Debug)]
pub struct DiskOrder {
    roots: Arc<Vec<Root>>,
    limits: Limits,
    workers: Arc<Workers>,
    begun: usize,
    stack: Vec<Visit>,
    leaves: Vec<Visit>,
    seen: Seen,
    /// Where to resume the first root.
    resume: Option<Bookmark>,
    /// Objects in a block of dnodes, of each root that was begun.
    dnodes_per_block: Vec<u64>,
}

impl DiskOrder {
    /// A walk over `roots`, one after another.
    pub fn new(roots: Vec<Root>, workers: Arc<Workers>, limits: Limits) -> Self {
        let dnodes_per_block = vec![order::DNODES_PER_BLOCK; roots.len()];
        Self {
            roots: Arc::new(roots),
            limits,
            workers,
            begun: 0,
            stack: Vec::new(),
            leaves: Vec::new(),
            seen: Seen::default(),
            resume: None,
            dnodes_per_block,
        }
    }

    /// Leaves out of the first root what lies before a place in the order of bookmarks. Blocks
    /// above it are met again.
    pub fn resume_at(&mut self, place: Bookmark) {
        self.resume = Some(place);
    }

    /// A place in the order of bookmarks before which all was met, in the first root that has
    /// something left; `None` if nothing is left. Of what lies behind it some was met, too.
    pub fn resume_point(&self) -> Option<Bookmark> {
        let pending = self.stack.iter().chain(&self.leaves);
        let key = |visit: &&Visit| {
            let per_block = self.dnodes_per_block[visit.root];
            (visit.root, order::pre_order(visit, per_block))
        };
        if let Some(first) = pending.min_by_key(key) {
            // OpenZFS resumes at places of the lowest level only.
            return Some(order::first_below(first));
        }
        let next = self.roots.get(self.begun)?;
        let start = Bookmark::data(next.objset, ObjectId(0), BlockId(0));
        Some(self.resume.filter(|_| self.begun == 0).unwrap_or(start))
    }

    /// What is walked.
    pub fn roots(&self) -> &[Root] {
        &self.roots
    }

    /// How many roots were begun, and the blocks of them that were not met yet: those that lead
    /// on, and the others. This is what a walk can be stored as.
    pub fn pending(&self) -> (usize, &[Visit], &[Visit]) {
        (self.begun, &self.stack, &self.leaves)
    }

    /// Takes over what was pending in another walk over the same roots. It is not known any more
    /// which blocks were met before: that is for [`Visitor::admit`].
    pub fn restore(&mut self, begun: usize, stack: Vec<Visit>, leaves: Vec<Visit>) {
        self.begun = begun.min(self.roots.len());
        let is_known = |visit: &Visit| visit.root < self.begun;
        self.stack = stack.into_iter().filter(is_known).collect();
        self.leaves = leaves.into_iter().filter(is_known).collect();
    }

    /// Runs until nothing is left or the visitor stops it.
    pub fn run<V: Visitor>(&mut self, visitor: &mut V) -> Pause {
        while visitor.goes_on(self.begun.checked_sub(1)) {
            if self.leaves.len() >= self.limits.leaves {
                self.flush(visitor);
            } else if !self.stack.is_empty() {
                self.step(visitor);
            } else if self.begun < self.roots.len() {
                self.begin_root(visitor);
            } else if !self.leaves.is_empty() {
                self.flush(visitor);
            } else {
                return Pause::Finished;
            }
        }
        Pause::Stopped
    }

    /// Reads the data that has gathered, so that little of what was found is left before the
    /// [`Self::resume_point`]: without it, a walk that is stopped again and again may get nowhere.
    pub fn drain<V: Visitor>(&mut self, visitor: &mut V) {
        self.flush(visitor);
    }

    fn begin_root<V: Visitor>(&mut self, visitor: &mut V) {
        let index = self.begun;
        self.begun += 1;
        // What comes again in another object set is the visitor's to know.
        self.seen = Seen::default();
        let root = self.roots[index].clone();
        match root.start {
            Start::Objset(pointer) => {
                self.push(visitor, Visit::of_objset(root.objset, pointer, index));
            }
            Start::Dnode(object, dnode) => self.push_objects(visitor, index, &[(object, dnode)]),
        }
    }

    /// Puts the tops of objects on their lists; the first object comes on top.
    fn push_objects<V: Visitor>(
        &mut self,
        visitor: &mut V,
        root: usize,
        objects: &[(ObjectId, Arc<Dnode>)],
    ) {
        let objset = self.roots[root].objset;
        for (object, dnode) in objects.iter().rev() {
            let top = |index| Visit::of_dnode(objset, *object, root, dnode, index);
            let tops: Vec<Visit> = (0..).map_while(top).collect();
            for visit in tops.into_iter().rev() {
                self.push(visitor, visit);
            }
        }
    }

    /// Puts a block on the list that it belongs to, if it is this root's to visit.
    fn push<V: Visitor>(&mut self, visitor: &mut V, visit: Visit) {
        let since = self.roots[visit.root].since;
        let is_due = !visit.is_absent() && since.is_before(&visit.pointer) && !self.is_done(&visit);
        if !is_due || !visitor.wants(&visit) {
            return;
        }
        match visit.leads_on() {
            true => self.stack.push(visit),
            false => self.leaves.push(visit),
        }
    }

    /// Whether the walk that this one resumes has met a block.
    fn is_done(&self, visit: &Visit) -> bool {
        let place = self.resume.filter(|_| visit.root == 0);
        let per_block = self.dnodes_per_block[visit.root];
        let relation = place.map(|place| order::relation_of(visit, place, per_block));
        relation == Some(order::Relation::Before)
    }

    /// Whether a block is read.
    fn admit<V: Visitor>(&mut self, visitor: &mut V, visit: &Visit) -> bool {
        if let Err(error) = visit.check() {
            visitor.damaged(visit, error);
            return false;
        }
        if !visitor.admit(visit) {
            return false;
        }
        if visit.leads_on() && !self.seen.note(visit) {
            visitor.damaged(visit, visit.repeated());
            return false;
        }
        true
    }

    /// Reads a batch of the stack and puts what is below on the lists.
    fn step<V: Visitor>(&mut self, visitor: &mut V) {
        let from = self.stack.len().saturating_sub(self.limits.batch);
        let mut batch: Vec<(usize, Visit)> =
            self.stack.split_off(from).into_iter().enumerate().collect();
        batch.sort_by_key(|(_, visit)| visit.disk_order());
        batch.retain(|(_, visit)| self.admit(visitor, visit));
        let (reader, roots) = (visitor.reader(), Arc::clone(&self.roots));
        let read = self.workers.map(batch, move |(position, visit)| {
            let found = reader.read(&visit, &roots[visit.root]);
            (position, visit, found)
        });
        let found = read.into_iter().filter_map(|(position, visit, found)| {
            let contents = visitor.found(&visit, found)?;
            Some((position, visit, contents))
        });
        let mut found: Vec<(usize, Visit, Block)> = found.collect();
        // Restores the order of the stack, so that the walk stays near the order of bookmarks.
        found.sort_by_key(|(position, ..)| *position);
        for (_, visit, contents) in found {
            if let Err(error) = visit.check_contents(&contents) {
                visitor.damaged(&visit, error);
                continue;
            }
            self.push_below(visitor, &visit, &contents);
        }
    }

    fn push_below<V: Visitor>(&mut self, visitor: &mut V, visit: &Visit, contents: &[u8]) {
        if visit.is_indirect() {
            let children = (0..).map_while(|index| visit.child(contents, index));
            let children: Vec<Visit> = children.filter(|child| !child.is_absent()).collect();
            for child in children.into_iter().rev() {
                self.push(visitor, child);
            }
            return;
        }
        let objects = match visit.is_dnodes() {
            true => objects_of(visitor, visit, contents),
            false => match visit.objset_dnodes(contents) {
                Ok(objects) => objects,
                Err(error) => return visitor.damaged(visit, error),
            },
        };
        if let Some((_, meta)) = objects.first().filter(|(object, _)| object.0 == 0) {
            let size = cenote_ondisk::dnode::DNODE_SIZE as u64;
            self.dnodes_per_block[visit.root] = (meta.data_block_size / size).max(1);
        }
        self.push_objects(visitor, visit.root, &objects);
    }

    /// Reads the gathered data blocks in disk order.
    fn flush<V: Visitor>(&mut self, visitor: &mut V) {
        let mut visits = std::mem::take(&mut self.leaves);
        visits.sort_by_key(Visit::disk_order);
        visits.retain(|visit| self.admit(visitor, visit));
        for round in rounds(visits, self.limits) {
            let (reader, roots) = (visitor.reader(), Arc::clone(&self.roots));
            let results = self.workers.map(round, move |group: Vec<Visit>| {
                let found = reader.read_group(&group, &roots);
                assert_eq!(group.len(), found.len(), "each block has an answer");
                (group, found)
            });
            for (group, found) in results {
                for (visit, found) in group.iter().zip(found) {
                    visitor.found(visit, found);
                }
            }
            visitor.progressed(self.begun.checked_sub(1));
        }
    }
}

/// The objects in a block of dnodes.
fn objects_of<V: Visitor>(
    visitor: &mut V,
    visit: &Visit,
    contents: &[u8],
) -> Vec<(ObjectId, Arc<Dnode>)> {
    let (mut objects, mut at) = (Vec::new(), 0);
    while let Some(slot) = visit.slot(contents, at) {
        at += slot.slots;
        match slot.found {
            Ok(dnode) => objects.extend(dnode.map(|dnode| (slot.object, dnode))),
            Err(error) => visitor.damaged(visit, error),
        }
    }
    objects
}

/// Cuts sorted visits into groups for workers, and those into rounds.
fn rounds(visits: Vec<Visit>, limits: Limits) -> Vec<Vec<Vec<Visit>>> {
    let mut groups: Vec<Vec<Visit>> = Vec::new();
    let mut bytes = limits.group_bytes;
    for visit in visits {
        let size = visit.pointer.physical_size();
        if bytes + size > limits.group_bytes {
            groups.push(Vec::new());
            bytes = 0;
        }
        bytes += size;
        groups
            .last_mut()
            .expect("pushed when the first visit came")
            .push(visit);
    }
    let mut rounds = Vec::new();
    while !groups.is_empty() {
        let rest = groups.split_off(groups.len().min(limits.groups.max(1)));
        rounds.push(std::mem::replace(&mut groups, rest));
    }
    rounds
}

/// A reader for walks that are about pointers: what it reads only passes through the cache, and of
/// data it reads nothing.
#[derive(Clone, Debug)]
pub struct Cached(pub Arc<BlockCache>);

impl Reader for Cached {
    type Found = Result<Option<Block>, DmuError>;

    fn read(&self, visit: &Visit, root: &Root) -> Self::Found {
        let keys = root.keys.as_deref();
        let context = ReadContext {
            bookmark: visit.bookmark,
            keys,
        };
        let contents = self.0.read_as(&visit.pointer, context, Retention::Pass)?;
        Ok(Some(contents))
    }

    fn read_group(&self, group: &[Visit], _: &[Root]) -> Vec<Self::Found> {
        group.iter().map(|_| Ok(None)).collect()
    }
}
