//! Taking back what a transaction changed.
//!
//! A change of several steps can fail at any of them: a block that it needs cannot be read, a
//! table is full. Half of it must never reach the disk. So a transaction that asks for it keeps
//! the state from before: of each object the dnode and what lies beside the blocks, of each block
//! the contents when the transaction first touches it, or only the bytes that it changes.
//! Taking back needs no I/O and cannot fail.
//!
//! This is right only for objects that no other thread changes until the transaction ends: the
//! caller holds their locks. Shared structures (the delete queue, tables of layouts) are changed
//! apart, in a log of its own, which ends under the lock of that structure
//! ([`Transaction::apart`](crate::Transaction::apart)).
//!
//! An object that got its generation from the transaction keeps an empty one. The sync writes its
//! dnode as it was.

use super::object::{Dirty, DirtySpill, Generation, LiveObject, LiveState};
use super::ranges::Ranges;
use cenote_base::{ObjectId, Txg};
use cenote_io::StoredForm;
use cenote_ondisk::dnode::FLAG_SPILL_BLKPTR;
use cenote_ondisk::{BlockPointer, Dnode};
use std::collections::{BTreeMap, HashSet};
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

/// What an object set does when changes of its objects are taken back.
pub(crate) trait UndoSet: Debug + Send + Sync {
    /// The dirty bytes of an object were `now`, and are `before` again.
    fn dirty_bytes_undone(&self, now: u64, before: u64);

    /// Whether an object is allocated and not on disk yet.
    fn set_fresh(&self, id: ObjectId, is_fresh: bool);
}

/// What a generation has beside its blocks.
#[derive(Debug)]
struct Shape {
    dnode: Option<Arc<Dnode>>,
    /// The dnode on disk at that moment.
    committed: Option<Arc<Dnode>>,
    is_replaced: bool,
    spill: DirtySpill,
    forms: BTreeMap<u64, StoredForm>,
    dirty_bytes: u64,
    beside_bytes: u64,
}

/// One thing to be put back. The number is that of the object among the touched ones.
#[derive(Debug)]
enum Step {
    Shape(usize, Box<Shape>),
    Fresh(usize, bool),
    Block(usize, u64, Option<Dirty>),
    Bytes(usize, u64, usize, Box<[u8]>),
    /// A range was added to the freed ones, which had these where it touches them.
    Freed(usize, u64, Vec<(u64, u64)>),
    /// All blocks and freed ranges were given up.
    Emptied(usize, BTreeMap<u64, Dirty>, Ranges),
}

#[derive(Debug)]
struct Touched {
    set: Arc<dyn UndoSet>,
    live: Arc<LiveObject>,
}

/// What a transaction changed, as it was before.
#[derive(Debug, Default)]
pub(crate) struct UndoLog {
    touched: Vec<Touched>,
    steps: Vec<Step>,
    /// Blocks whose contents are kept as a whole.
    whole: HashSet<(usize, u64)>,
}

impl UndoLog {
    /// Notes an object before its generation changes.
    pub(crate) fn object(
        &mut self,
        set: Arc<dyn UndoSet>,
        live: &Arc<LiveObject>,
        (committed, generation): (Option<Arc<Dnode>>, &Generation),
    ) {
        if self.find(live).is_some() {
            return;
        }
        let live = Arc::clone(live);
        self.touched.push(Touched { set, live });
        let shape = Shape {
            dnode: generation.dnode.clone(),
            committed,
            is_replaced: generation.is_replaced,
            spill: generation.spill.clone(),
            forms: generation.forms.clone(),
            dirty_bytes: generation.dirty_bytes,
            beside_bytes: generation.beside_bytes,
        };
        let step = Step::Shape(self.touched.len() - 1, Box::new(shape));
        self.steps.push(step);
    }

    fn find(&self, live: &Arc<LiveObject>) -> Option<usize> {
        let is_it = |touched: &Touched| Arc::ptr_eq(&touched.live, live);
        // The last of several: what is known to be kept as a whole stands by its number.
        self.touched.iter().rposition(is_it)
    }

    fn index(&self, live: &Arc<LiveObject>) -> usize {
        self.find(live).expect("it was noted before it changes")
    }

    /// Notes whether an object is fresh, before that changes.
    pub(crate) fn fresh(&mut self, live: &Arc<LiveObject>, is_fresh: bool) {
        let index = self.index(live);
        self.steps.push(Step::Fresh(index, is_fresh));
    }

    /// Notes a block before it is replaced.
    pub(crate) fn block(&mut self, live: &Arc<LiveObject>, block: u64, before: Option<&Dirty>) {
        let index = self.index(live);
        if self.whole.insert((index, block)) {
            self.steps.push(Step::Block(index, block, before.cloned()));
        }
    }

    /// Notes a block before bytes of it are changed in place.
    pub(crate) fn bytes(
        &mut self,
        live: &Arc<LiveObject>,
        (block, range): (u64, &Range<usize>),
        before: &Dirty,
    ) {
        let Dirty::Contents(contents) = before else {
            return self.block(live, block, Some(before));
        };
        let range = range.start.min(contents.len())..range.end.min(contents.len());
        if range.len() == contents.len() {
            return self.block(live, block, Some(before));
        }
        let index = self.index(live);
        if !range.is_empty() && !self.whole.contains(&(index, block)) {
            let (start, old) = (range.start, Box::from(&contents[range]));
            self.steps.push(Step::Bytes(index, block, start, old));
        }
    }

    /// Notes the freed ranges before `[start, end)` is added to them.
    pub(crate) fn freed(&mut self, live: &Arc<LiveObject>, freed: &Ranges, start: u64, end: u64) {
        if start < end {
            let index = self.index(live);
            let touching = freed.touching(start, end);
            self.steps.push(Step::Freed(index, start, touching));
        }
    }

    /// Takes over all blocks and freed ranges of a generation that gives them up.
    pub(crate) fn emptied(
        &mut self,
        live: &Arc<LiveObject>,
        (blocks, freed): (BTreeMap<u64, Dirty>, Ranges),
    ) {
        let index = self.index(live);
        self.steps.push(Step::Emptied(index, blocks, freed));
    }

    /// This log with what was noted after it.
    pub(crate) fn followed_by(mut self, later: Self) -> Self {
        let base = self.touched.len();
        self.touched.extend(later.touched);
        let steps = later.steps.into_iter();
        self.steps.extend(steps.map(|step| step.moved_by(base)));
        let whole = later.whole.into_iter();
        self.whole
            .extend(whole.map(|(index, block)| (base + index, block)));
        self
    }

    /// Puts everything back; returns the objects that were touched.
    pub(crate) fn take_back(self, txg: Txg) -> Vec<ObjectId> {
        for step in self.steps.into_iter().rev() {
            let index = step.index();
            let Touched { set, live } = &self.touched[index];
            if let Step::Fresh(_, is_fresh) = step {
                set.set_fresh(live.id, is_fresh);
                continue;
            }
            let mut state = live.write();
            step.put_back(&mut state, set, txg);
            state.changes.note(0);
        }
        let ids = self.touched.iter().map(|touched| touched.live.id);
        ids.collect()
    }
}

impl Step {
    fn moved_by(mut self, base: usize) -> Self {
        match &mut self {
            Self::Shape(index, _)
            | Self::Fresh(index, _)
            | Self::Block(index, ..)
            | Self::Bytes(index, ..)
            | Self::Freed(index, ..)
            | Self::Emptied(index, ..) => *index += base,
        }
        self
    }

    fn index(&self) -> usize {
        match self {
            Self::Shape(index, _)
            | Self::Fresh(index, _)
            | Self::Block(index, ..)
            | Self::Bytes(index, ..)
            | Self::Freed(index, ..)
            | Self::Emptied(index, ..) => *index,
        }
    }

    fn put_back(self, state: &mut LiveState, set: &Arc<dyn UndoSet>, txg: Txg) {
        let LiveState {
            committed, open, ..
        } = state;
        let open = open.as_mut().filter(|open| open.txg == txg);
        let open = open.expect("the group is open while a transaction is in it");
        match self {
            Self::Shape(_, shape) => {
                let now = std::mem::replace(&mut open.dirty_bytes, shape.dirty_bytes);
                set.dirty_bytes_undone(now, shape.dirty_bytes);
                open.dnode = shape.dnode;
                open.is_replaced = shape.is_replaced;
                open.spill = shape.spill;
                open.forms = shape.forms;
                open.beside_bytes = shape.beside_bytes;
                if let Some(below) = committed
                    && !shape
                        .committed
                        .is_some_and(|before| Arc::ptr_eq(&before, below))
                {
                    open.take_tree_of(below);
                }
            }
            Self::Fresh(..) => {}
            Self::Block(_, block, before) => match before {
                Some(before) => drop(open.blocks.insert(block, before)),
                None => drop(open.blocks.remove(&block)),
            },
            Self::Bytes(_, block, start, old) => {
                if let Some(Dirty::Contents(contents)) = open.blocks.get_mut(&block) {
                    Arc::make_mut(contents)[start..start + old.len()].copy_from_slice(&old);
                }
            }
            Self::Freed(_, start, touching) => open.freed.put_back(start, &touching),
            Self::Emptied(_, blocks, freed) => (open.blocks, open.freed) = (blocks, freed),
        }
    }
}

impl Generation {
    /// Takes over where the tree and the spill block of `below` are, which a sync has written
    /// since this generation began.
    pub(crate) fn take_tree_of(&mut self, below: &Dnode) {
        if self.is_replaced {
            return;
        }
        if let Some(dnode) = &mut self.dnode {
            let dnode = Arc::make_mut(dnode);
            dnode.block_pointers.clone_from(&below.block_pointers);
            dnode.levels = below.levels;
            dnode.used = below.used;
            dnode.flags = below.flags & !FLAG_SPILL_BLKPTR | dnode.flags & FLAG_SPILL_BLKPTR;
            if dnode.spill.is_some() {
                dnode.spill = Some(below.spill.unwrap_or(BlockPointer::HOLE));
            }
        }
    }
}
