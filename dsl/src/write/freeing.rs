//! Freeing the blocks of destroyed datasets behind their users' backs (format/3a 8).
//!
//! The queue's first dataset is walked in post-order, data before what points to it, so that a
//! crash at any point leaves a tree whose upper part is whole. Each transaction group frees a
//! bounded number of blocks and notes where the walk stopped. What was freed before is never read
//! again: its space may hold something else by now.
//!
//! What cannot be read stalls the walk: everything before it is freed, and the rest waits for the
//! next import, when the device may be well again. With `zfs_free_leak_on_eio` the walk goes on
//! behind it; the space below it is lost, and accounted to the directory `$LEAK` (zfs(4)).

use super::accounting::{Part, SpaceChange};
use super::context::SyncContext;
use crate::deadlist::SpaceTriple;
use crate::error::DslError;
use crate::object_directory::keys;
use cenote_base::{BlockId, Bookmark, Level, ObjectId, ObjsetId, Txg, settings};
use cenote_cache::Block;
use cenote_io::ReadContext;
use cenote_ondisk::block_pointer::BLOCK_POINTER_SIZE;
use cenote_ondisk::bptree::{BptreeEntry, ENTRY_SIZE};
use cenote_ondisk::dnode::{DNODE_SIZE, DNODE_SLOTS_MAX};
use cenote_ondisk::{BlockPointer, Dnode, ObjectType, Objset};
use std::sync::atomic::Ordering;

const ASYNC_DESTROY: &str = "com.delphix:async_destroy";
const BPTREE: ObjectType = ObjectType(0xC3);

/// Blocks taken from the list of single blocks at a time.
const LIST_BATCH: usize = 1024;
/// In a resume bookmark: the dataset is destroyed and has no number any more.
const DESTROYED: ObjsetId = ObjsetId(u64::MAX);
/// The number that spill blocks have.
const SPILL: BlockId = BlockId(u64::MAX);
/// Objects from here on are the accounting objects in the object set block.
const SPECIAL_OBJECTS: u64 = u64::MAX - 2;

/// How far a walk came.
enum Outcome {
    Finished,
    Paused(Bookmark),
    /// Something could not be read. The walk is to go on here, or where it had begun.
    Stalled(Option<Bookmark>),
}

impl SyncContext<'_> {
    /// Frees some of what waits to be freed. Returns whether anything was done.
    ///
    /// # Errors
    /// If the pool's metadata cannot be read.
    pub fn free_in_background(&self) -> Result<bool, DslError> {
        let most = settings::ASYNC_FREE_BLOCKS_MAX.get();
        let mut left = usize::try_from(most).unwrap_or(usize::MAX);
        let mut worked = self.free_listed(&mut left)?;
        while left > 0 && self.free_queued(&mut left)? {
            worked = true;
        }
        Ok(worked)
    }

    /// Frees all blocks below the root of a destroyed object set that were born after a txg.
    /// Without a queue nothing can wait: what cannot be read is given up.
    pub(super) fn free_at_once(
        &self,
        root: &BlockPointer,
        born_after: Txg,
    ) -> Result<(), DslError> {
        let mut walk = Walk::new(self, born_after, None, usize::MAX);
        walk.is_to_leak = true;
        walk.run(root).map(|_| ())
    }

    /// Frees blocks of the pool's list of single blocks.
    fn free_listed(&self, left: &mut usize) -> Result<bool, DslError> {
        let Some(list) = self.dsl.object_directory().object(keys::FREE_BPOBJ)? else {
            return Ok(false);
        };
        let mut worked = false;
        while *left > 0 {
            let blocks = self.take_blocks(list, LIST_BATCH.min(*left))?;
            if blocks.is_empty() {
                break;
            }
            let mut sum = SpaceTriple::default();
            for block in &blocks {
                sum = sum.plus(self.dsl.space_of_block(block));
                self.release(block)?;
            }
            let free = self.hidden_directory("$FREE")?;
            self.use_space(free, Part::Head, SpaceChange::from(sum).negated())?;
            *left -= blocks.len();
            worked = true;
        }
        Ok(worked)
    }

    /// Goes on with the first dataset of the queue.
    fn free_queued(&self, left: &mut usize) -> Result<bool, DslError> {
        let Some(queue) = self.dsl.object_directory().object(keys::BPTREE)? else {
            return Ok(false);
        };
        let leaks = settings::FREE_LEAK.get() != 0;
        if self.dsl.freeing_is_stalled.load(Ordering::Relaxed) && !leaks {
            return Ok(false);
        }
        let object = self.mos().object(queue)?;
        let mut header = self.queue_header(queue)?;
        if header.begin == header.end {
            self.remove_directory_entry(keys::BPTREE)?;
            self.destroy_object(queue)?;
            self.feature_changed(ASYNC_DESTROY, -1)?;
            self.note_leak()?;
            return Ok(true);
        }
        let size = ENTRY_SIZE as u64;
        let mut bytes = [0; ENTRY_SIZE];
        object.read(header.begin * size, &mut bytes)?;
        let entry = BptreeEntry::decode(&bytes);
        let mut entry = entry.map_err(|source| DslError::decode(queue, source))?;
        let mut walk = Walk::new(self, entry.birth_txg, entry.resume, *left);
        walk.is_to_leak = leaks;
        let outcome = walk.run(&entry.block_pointer)?;
        let freed = walk.freed;
        *left = walk.left;
        match outcome {
            Outcome::Finished => {
                object.free_range(self.tx, header.begin * size, size)?;
                header.begin += 1;
            }
            Outcome::Paused(bookmark) => {
                entry.resume = Some(bookmark);
                object.write(self.tx, header.begin * size, &entry.encode())?;
                *left = 0;
            }
            Outcome::Stalled(bookmark) => {
                entry.resume = bookmark;
                object.write(self.tx, header.begin * size, &entry.encode())?;
                self.dsl.freeing_is_stalled.store(true, Ordering::Relaxed);
                *left = 0;
            }
        }
        header.bytes = header.bytes.saturating_sub(freed.used);
        header.compressed_bytes = header.compressed_bytes.saturating_sub(freed.compressed);
        header.uncompressed_bytes = header.uncompressed_bytes.saturating_sub(freed.uncompressed);
        object.set_bonus(self.tx, BPTREE, header.encode().to_vec())?;
        let free = self.hidden_directory("$FREE")?;
        self.use_space(free, Part::Head, SpaceChange::from(freed).negated())?;
        Ok(true)
    }

    /// Accounts what is left of the space that was to be freed, when nothing waits any more, to the
    /// directory of what is lost.
    fn note_leak(&self) -> Result<(), DslError> {
        let free = self.hidden_directory("$FREE")?;
        let phys = self.directory(free)?;
        let left = SpaceTriple {
            used: phys.used_bytes,
            compressed: phys.compressed_bytes,
            uncompressed: phys.uncompressed_bytes,
        };
        if left == SpaceTriple::default() {
            return Ok(());
        }
        let root = self.dsl.root()?;
        let leak = match root.child(b"$LEAK")? {
            Some(found) => found.id(),
            None => self.create_directory(Some(root.id()), b"$LEAK")?,
        };
        self.use_space(leak, Part::Head, SpaceChange::from(left))?;
        self.use_space(free, Part::Head, SpaceChange::from(left).negated())
    }
}

/// What is below a block that is still to be freed.
enum Below {
    Nothing,
    /// Pointers of an indirect block, or of a dnode.
    Pointers {
        pointers: Vec<BlockPointer>,
        level: Level,
        first: u64,
        spill: Option<BlockPointer>,
    },
    /// Dnodes of a block of them.
    Dnodes {
        block: Block,
        slot: usize,
    },
    /// The dnodes of the object set block, with their numbers; the last comes first.
    Objset(Vec<(u64, Dnode)>),
}

/// A block that is freed when all below it is.
struct Frame {
    /// `None` for a dnode, which is no block of its own.
    block: Option<(BlockPointer, Bookmark)>,
    object: u64,
    /// log2 of the pointers in an indirect block of the object.
    fanout_shift: u32,
    below: Below,
    next: usize,
}

struct Walk<'a> {
    context: &'a SyncContext<'a>,
    born_after: Txg,
    resume: Option<Bookmark>,
    /// Blocks that may still be freed.
    left: usize,
    /// What cannot be read is passed over.
    is_to_leak: bool,
    freed: SpaceTriple,
    stack: Vec<Frame>,
}

impl<'a> Walk<'a> {
    fn new(
        context: &'a SyncContext<'a>,
        born_after: Txg,
        resume: Option<Bookmark>,
        left: usize,
    ) -> Self {
        Self {
            context,
            born_after,
            resume,
            left,
            is_to_leak: false,
            freed: SpaceTriple::default(),
            stack: Vec::new(),
        }
    }

    fn run(&mut self, root: &BlockPointer) -> Result<Outcome, DslError> {
        if root.is_hole() || root.accounting_birth() <= self.born_after {
            return Ok(Outcome::Finished);
        }
        let bookmark = place(0, Level(0), BlockId(0));
        let Some(below) = self.or_leaked(self.objects(root, bookmark))? else {
            return Ok(Outcome::Stalled(self.resume));
        };
        self.stack.push(Frame {
            block: Some((*root, bookmark)),
            object: 0,
            fanout_shift: 0,
            below,
            next: 0,
        });
        while let Some(frame) = self.stack.last_mut() {
            match frame.next_child(self.born_after) {
                Ok(Some(child)) => match self.enter(child)? {
                    Entered::Stalled(bookmark) => return Ok(Outcome::Stalled(bookmark)),
                    Entered::Passed => continue,
                },
                Ok(None) => {}
                Err(error) if error.is_damage() && self.is_to_leak => frame.below = Below::Nothing,
                Err(error) if error.is_damage() => {
                    let begun = self.resume;
                    return Ok(Outcome::Stalled(begun.or(Some(frame.reached()))));
                }
                Err(error) => return Err(error),
            }
            if let Some((pointer, bookmark)) = frame.block {
                if self.left == 0 {
                    return Ok(Outcome::Paused(bookmark));
                }
                self.free(&pointer)?;
            }
            self.stack.pop();
        }
        Ok(Outcome::Finished)
    }

    fn free(&mut self, pointer: &BlockPointer) -> Result<(), DslError> {
        let space = self.context.dsl.space_of_block(pointer);
        self.context.release(pointer)?;
        self.freed = self.freed.plus(space);
        self.left -= 1;
        Ok(())
    }

    fn read(&self, pointer: &BlockPointer, bookmark: Bookmark) -> Result<Block, DslError> {
        let keys = None;
        let cache = self.context.mos().cache();
        let block = cache.read(pointer, ReadContext { bookmark, keys });
        Ok(block.map_err(cenote_dmu::DmuError::from)?)
    }

    /// The objects below the object set block; the last comes first.
    fn objects(&self, root: &BlockPointer, bookmark: Bookmark) -> Result<Below, DslError> {
        let block = self.read(root, bookmark)?;
        let objset = Objset::decode(&block);
        let objset = objset.map_err(|source| DslError::decode(ObjectId(0), source))?;
        let mut objects = Vec::new();
        for (id, dnode) in [
            (u64::MAX, objset.user_used),
            (u64::MAX - 1, objset.group_used),
            (u64::MAX - 2, objset.project_used),
        ] {
            objects.extend(dnode.map(|dnode| (id, dnode)));
        }
        objects.push((0, objset.meta_dnode));
        Ok(Below::Objset(objects))
    }

    /// What is below a block; nothing if that is lost, and `None` if it has to wait.
    fn or_leaked(&self, below: Result<Below, DslError>) -> Result<Option<Below>, DslError> {
        match below {
            Ok(below) => Ok(Some(below)),
            Err(error) if error.is_damage() => Ok(self.is_to_leak.then_some(Below::Nothing)),
            Err(error) => Err(error),
        }
    }

    /// Goes into a child, unless an earlier walk freed it.
    fn enter(&mut self, child: Child) -> Result<Entered, DslError> {
        match child {
            Child::Dnode(id, dnode) => {
                let frame = Frame::of_dnode(id, &dnode);
                if self.resume.is_some_and(|resume| object_is_done(id, resume)) {
                    return Ok(Entered::Passed);
                }
                self.stack.push(frame);
            }
            Child::Block {
                pointer,
                bookmark,
                fanout_shift,
                dnodes_per_block,
            } => {
                let state = match self.resume {
                    Some(resume) => state_of(bookmark, resume, fanout_shift, dnodes_per_block),
                    None => State::Ahead,
                };
                if state == State::Done {
                    return Ok(Entered::Passed);
                }
                if state == State::Here || state == State::Ahead {
                    self.resume = None;
                }
                let below = match state {
                    // All below was freed before.
                    State::Here => Some(Below::Nothing),
                    _ => self.or_leaked(self.below(&pointer, bookmark, fanout_shift))?,
                };
                let Some(below) = below else {
                    // Where it goes on inside, if that is known.
                    let first = first_below(bookmark, fanout_shift, dnodes_per_block);
                    return Ok(Entered::Stalled(self.resume.or(Some(first))));
                };
                self.stack.push(Frame {
                    block: Some((pointer, bookmark)),
                    object: bookmark.object.0,
                    fanout_shift,
                    below,
                    next: 0,
                });
            }
        }
        Ok(Entered::Passed)
    }

    fn below(
        &self,
        pointer: &BlockPointer,
        bookmark: Bookmark,
        fanout_shift: u32,
    ) -> Result<Below, DslError> {
        if bookmark.block == SPILL {
            return Ok(Below::Nothing);
        }
        if bookmark.level.0 > 0 {
            let block = self.read(pointer, bookmark)?;
            let pointers = block.chunks_exact(BLOCK_POINTER_SIZE);
            let decoded: Result<Vec<_>, _> = pointers.map(BlockPointer::decode).collect();
            let decoded = decoded.map_err(|source| DslError::decode(bookmark.object, source))?;
            let level = Level(bookmark.level.0 - 1);
            return Ok(Below::Pointers {
                pointers: decoded,
                level,
                first: bookmark.block.0 << fanout_shift,
                spill: None,
            });
        }
        if bookmark.object.0 == 0 {
            let block = self.read(pointer, bookmark)?;
            return Ok(Below::Dnodes { block, slot: 0 });
        }
        Ok(Below::Nothing)
    }
}

/// How going into a child went.
enum Entered {
    Passed,
    /// It cannot be read; the walk is to go on here.
    Stalled(Option<Bookmark>),
}

/// What the walk finds below a block.
enum Child {
    Dnode(u64, Dnode),
    Block {
        pointer: BlockPointer,
        bookmark: Bookmark,
        fanout_shift: u32,
        dnodes_per_block: u64,
    },
}

fn place(object: u64, level: Level, block: BlockId) -> Bookmark {
    Bookmark {
        objset: DESTROYED,
        object: ObjectId(object),
        level,
        block,
    }
}

/// The place where a walk goes on which has freed nothing below this block, which is no leaf: that
/// of the first block below it that there can be.
fn first_below(block: Bookmark, fanout_shift: u32, dnodes_per_block: u64) -> Bookmark {
    let shift = fanout_shift.saturating_mul(u32::from(block.level.0));
    let first = block.block.0.checked_shl(shift).unwrap_or(u64::MAX);
    match block.object.0 {
        // There is no object 0 but the meta-dnode itself.
        0 => {
            let object = first.saturating_mul(dnodes_per_block).max(1);
            place(object, Level(0), BlockId(0))
        }
        object => place(object, Level(0), BlockId(first)),
    }
}

impl Frame {
    /// The place where a walk goes on that has freed all before the next object of a block of
    /// dnodes.
    fn reached(&self) -> Bookmark {
        let object = match (&self.below, &self.block) {
            (Below::Dnodes { block, slot }, Some((_, bookmark))) => {
                bookmark.block.0 * (block.len() / DNODE_SIZE) as u64 + *slot as u64
            }
            _ => self.object,
        };
        place(object.max(1), Level(0), BlockId(0))
    }

    fn of_dnode(id: u64, dnode: &Dnode) -> Self {
        Self {
            block: None,
            object: id,
            fanout_shift: dnode.indirect_fanout_shift(),
            below: Below::Pointers {
                pointers: dnode.block_pointers.clone(),
                level: Level(dnode.levels.saturating_sub(1)),
                first: 0,
                spill: dnode.spill,
            },
            next: 0,
        }
    }

    /// The next child that has blocks of the destroyed dataset's own.
    fn next_child(&mut self, born_after: Txg) -> Result<Option<Child>, DslError> {
        let is_own = |pointer: &BlockPointer| {
            !pointer.is_hole() && !pointer.is_redacted() && pointer.accounting_birth() > born_after
        };
        match &mut self.below {
            Below::Nothing => Ok(None),
            Below::Objset(objects) => Ok(objects.pop().map(|(id, dnode)| Child::Dnode(id, dnode))),
            Below::Pointers {
                pointers,
                level,
                first,
                spill,
            } => {
                while let Some(pointer) = pointers.get(self.next) {
                    let block = BlockId(*first + self.next as u64);
                    self.next += 1;
                    if is_own(pointer) {
                        return Ok(Some(Child::Block {
                            pointer: *pointer,
                            bookmark: place(self.object, *level, block),
                            fanout_shift: self.fanout_shift,
                            dnodes_per_block: dnodes_per_block(pointer),
                        }));
                    }
                }
                let spill = spill.take().filter(is_own);
                Ok(spill.map(|pointer| Child::Block {
                    pointer,
                    bookmark: place(self.object, Level(0), SPILL),
                    fanout_shift: self.fanout_shift,
                    dnodes_per_block: 1,
                }))
            }
            Below::Dnodes { block, slot } => {
                let per_block = (block.len() / DNODE_SIZE) as u64;
                let (_, bookmark) = self.block.as_ref().expect("blocks of dnodes are blocks");
                let first = bookmark.block.0 * per_block;
                while *slot * DNODE_SIZE < block.len() {
                    let bytes = &block[*slot * DNODE_SIZE..];
                    let id = first + *slot as u64;
                    let dnode = Dnode::decode(bytes);
                    let dnode = dnode.map_err(|source| DslError::decode(ObjectId(id), source))?;
                    let slots = dnode.as_ref().map_or(1, Dnode::slots);
                    *slot += slots.clamp(1, DNODE_SLOTS_MAX);
                    if let Some(dnode) = dnode {
                        return Ok(Some(Child::Dnode(id, dnode)));
                    }
                }
                Ok(None)
            }
        }
    }
}

fn dnodes_per_block(pointer: &BlockPointer) -> u64 {
    match pointer.level().0 {
        0 => (pointer.logical_size() / DNODE_SIZE as u64).max(1),
        // Of indirect blocks it is not known here, and the dnodes' own blocks decide.
        _ => 32,
    }
}

/// Where a block is in relation to the block at which a walk goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Freed before, with all below it.
    Done,
    /// Some below it was freed.
    Inside,
    /// All below it was freed, and it is next.
    Here,
    /// Nothing of it was freed.
    Ahead,
}

fn object_is_done(id: u64, resume: Bookmark) -> bool {
    let resumed = resume.object.0;
    match (id >= SPECIAL_OBJECTS, resumed >= SPECIAL_OBJECTS) {
        // They come after all others, the project's first and the user's last.
        (true, true) => id < resumed,
        (true, false) => false,
        // The meta-dnode is walked through, since all others are below it.
        (false, true) => true,
        (false, false) => id != 0 && id < resumed,
    }
}

fn state_of(block: Bookmark, resume: Bookmark, fanout_shift: u32, per_block: u64) -> State {
    if block == resume {
        return State::Here;
    }
    // The last data block below a block, and then its height, give the post-order.
    let last = |place: Bookmark| {
        if place.block == SPILL {
            return u64::MAX;
        }
        let shift = fanout_shift.saturating_mul(u32::from(place.level.0));
        let next = place.block.0.saturating_add(1);
        match shift {
            0..64 => next.checked_mul(1 << shift).map_or(u64::MAX, |end| end - 1),
            _ => u64::MAX,
        }
    };
    if block.object == resume.object {
        let (here, there) = ((last(block), block.level.0), (last(resume), resume.level.0));
        if here < there {
            return State::Done;
        }
        let shift = fanout_shift
            .saturating_mul(u32::from(block.level.0))
            .min(63);
        let first = block.block.0.checked_shl(shift).unwrap_or(u64::MAX);
        let is_above = block.level > resume.level && resume.block != SPILL;
        return match is_above && first <= last(resume) {
            true => State::Inside,
            false => State::Ahead,
        };
    }
    if block.object.0 != 0 {
        return State::Ahead;
    }
    // A block of the meta-dnode, and the walk goes on in an object.
    let resumed = resume.object.0 / per_block.max(1);
    let shift = fanout_shift
        .saturating_mul(u32::from(block.level.0))
        .min(63);
    let first = block.block.0.checked_shl(shift).unwrap_or(u64::MAX);
    match (last(block) < resumed, first <= resumed) {
        (true, _) => State::Done,
        (false, true) => State::Inside,
        (false, false) => State::Ahead,
    }
}
