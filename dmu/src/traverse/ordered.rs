//! The walk in the order of bookmarks.
//!
//! A stack holds one frame for each block, or dnode, on the way down: at most a tree of dnodes and
//! the tree of an object in it, so it is as deep as the format allows levels. A frame has the
//! block's contents and the number of the next child; nothing below is read before the child is
//! met, but for what is [read ahead](super::read_ahead).
//!
//! In pre-order a block is reported before it is read, so that the caller can skip it. In
//! post-order it is read first and reported when its frame is left.

use super::order::{self, Relation};
use super::read_ahead;
use super::seen::Seen;
use super::visit::{Part, Root, Start, Visit};
use crate::error::DmuError;
use cenote_base::{BlockId, Bookmark, Level, ObjectId, ObjsetId};
use cenote_cache::{Block, BlockCache, Retention};
use cenote_io::ReadContext;
use cenote_ondisk::Dnode;
use cenote_ondisk::dnode::DNODE_SIZE;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Children that lead on, and dnodes, that are examined ahead of the walk.
const WINDOW: usize = 32;
/// Children of an indirect block, at most.
const CHILDREN_MAX: u64 = 1024;
/// Of the memory for decoded blocks, what is read ahead takes at most one part in so many.
const CACHE_SHARE: u64 = 4;

/// When a block is reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Before what is below it.
    #[default]
    Pre,
    /// After what is below it.
    Post,
}

/// How to walk.
#[derive(Clone, Debug)]
pub struct Walk {
    /// When blocks are reported.
    pub order: Order,
    /// The first block to report: earlier ones in this order are left out. In pre-order the walk
    /// reports the object that it is in once more.
    pub resume: Option<Bookmark>,
    /// The data blocks of [`Start::Dnode`]'s object to which the walk is limited. Its spill block
    /// stands behind the last.
    pub blocks: RangeInclusive<u64>,
    /// Blocks below this level are not visited, but for those of the meta-dnode.
    pub lowest: Level,
    /// Whether holes and redacted blocks are reported.
    pub holes: bool,
    /// Whether free slots in blocks of dnodes are reported.
    pub free_slots: bool,
    /// Bytes of data to read ahead of the walk; it reads no data itself.
    pub data_ahead: u64,
    /// How long blocks that the walk reads stay in the cache.
    pub retention: Retention,
}

impl Default for Walk {
    fn default() -> Self {
        Self {
            order: Order::Pre,
            resume: None,
            blocks: 0..=u64::MAX,
            lowest: Level(0),
            holes: false,
            free_slots: false,
            data_ahead: 0,
            retention: Retention::Keep,
        }
    }
}

impl Walk {
    /// The same walk over the data blocks `first..=last` only.
    #[must_use]
    pub fn over(self, first: BlockId, last: BlockId) -> Self {
        Self {
            blocks: first.0..=last.0,
            ..self
        }
    }
}

/// What a walk meets.
#[derive(Debug)]
pub enum Event {
    /// An object, before its blocks; the meta-dnode is object 0.
    Object(ObjectId, Arc<Dnode>),
    /// A block.
    Block(Visit),
    /// A hole that is not too old or has no birth, or a redacted block; its
    /// [span](Visit::span) is absent.
    Hole(Visit),
    /// Free slots in a block of dnodes, as many as there are one after another in it.
    FreeSlots {
        /// The first.
        first: ObjectId,
        /// How many.
        count: u64,
    },
    /// Something that cannot be walked. The walk continues behind it.
    Damage(Box<Damage>),
}

/// How much is lost to damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// The pointer does not fit its place, or leads to a block met before. The block itself is not
    /// reported: it may belong to another object.
    Refused,
    /// The block's contents cannot be had, and all that is below it stays unknown. The block itself
    /// is reported: before, or after in post-order.
    Unreadable,
    /// This dnode in a block of them does not decode. [`Ordered::pass_over`] leaves out the rest of
    /// the block, of which it may have been the beginning of a larger dnode.
    Dnode(ObjectId),
}

/// Damage that a walk met.
#[derive(Debug)]
pub struct Damage {
    /// The block.
    pub visit: Visit,
    /// How much is lost.
    pub kind: DamageKind,
    /// Where a walk in the same order must resume to meet it again; `None` at the beginning.
    pub resume: Option<Bookmark>,
    /// What happened.
    pub error: DmuError,
}

/// What a frame's children are.
#[derive(Debug)]
enum Below {
    Nothing,
    /// The objects of an object set block.
    Objects(Vec<(ObjectId, Arc<Dnode>)>),
    /// The tops of a tree.
    Tops(ObjectId, Arc<Dnode>),
    /// The entries of an indirect block.
    Entries(Block),
    /// The dnodes of a block of them.
    Slots(Block),
}

#[derive(Debug)]
struct Frame {
    /// `None` for a dnode, which is no block of its own.
    visit: Option<Visit>,
    below: Below,
    /// The next child.
    next: usize,
    /// The first child that was not examined ahead of the walk.
    ahead: usize,
}

/// What is below a block.
enum Child {
    Block(Visit),
    Object(ObjectId, Arc<Dnode>),
    FreeSlots(ObjectId, u64),
    Damaged(ObjectId, DmuError),
}

/// The last event, as far as it can be skipped.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Object,
    DamagedDnode,
    Other,
}

/// What becomes of a block in relation to the place at which the walk resumes.
#[derive(PartialEq, Eq)]
enum Passage {
    /// It was met before with all below it.
    Done,
    /// It was reported before, but not all below it.
    Through,
    /// It is reported, and entered.
    Whole,
    /// All below it was met before.
    Itself,
}

/// A walk in the order of bookmarks: see [the module](super).
#[derive(Debug)]
pub struct Ordered {
    cache: Arc<BlockCache>,
    root: Root,
    walk: Walk,
    /// The place to resume at, until it is reached.
    resume: Option<Bookmark>,
    dnodes_per_block: u64,
    /// Whether the root was met.
    is_begun: bool,
    /// A block that was reported and is to be entered next.
    entered: Option<Visit>,
    told: Told,
    stack: Vec<Frame>,
    seen: Seen,
}

impl Ordered {
    /// A walk that reads through `cache`. Nothing is read before the first event is asked for.
    pub fn new(cache: Arc<BlockCache>, root: Root, walk: Walk) -> Self {
        let dnodes_per_block = match &root.start {
            Start::Dnode(ObjectId(0), meta) => dnodes_per_block(meta),
            _ => order::DNODES_PER_BLOCK,
        };
        Self {
            cache,
            resume: walk.resume,
            root,
            walk,
            dnodes_per_block,
            is_begun: false,
            entered: None,
            told: Told::Other,
            stack: Vec::new(),
            seen: Seen::default(),
        }
    }

    /// Passes over what is below the last event: of a block in pre-order what is below it, of an
    /// object its blocks, of a damaged dnode the rest of the block that it stands in.
    pub fn pass_over(&mut self) {
        self.entered = None;
        match std::mem::replace(&mut self.told, Told::Other) {
            Told::Object => drop(self.stack.pop()),
            Told::DamagedDnode => {
                if let Some(frame) = self.stack.last_mut() {
                    frame.below = Below::Nothing;
                }
            }
            Told::Other => {}
        }
    }

    /// The contents of a block that the walk reported.
    ///
    /// # Errors
    /// If it cannot be read, or is encrypted and the walk has no keys.
    pub fn read(&self, visit: &Visit) -> Result<Block, DmuError> {
        let keys = self.root.keys.as_deref();
        let context = ReadContext {
            bookmark: visit.bookmark,
            keys,
        };
        let contents = self
            .cache
            .read_as(&visit.pointer, context, self.walk.retention)?;
        visit.check_contents(&contents)?;
        Ok(contents)
    }

    fn begin(&mut self) -> Option<Event> {
        match self.root.start.clone() {
            Start::Objset(pointer) => self.meet(Visit::of_objset(self.root.objset, pointer, 0)),
            Start::Dnode(object, dnode) => self.meet_object(object, dnode),
        }
    }

    /// Whether the walk is for what is in this place at all.
    fn is_in_range(&self, visit: &Visit) -> bool {
        let object = visit.bookmark.object;
        if object.0 != 0 && visit.bookmark.level < self.walk.lowest {
            return false;
        }
        let is_ranged = matches!(&self.root.start, Start::Dnode(start, _) if *start == object);
        let ((first, last), range) = (visit.span(), &self.walk.blocks);
        !is_ranged || (first <= *range.end() && last >= *range.start())
    }

    fn passage(&self, visit: &Visit) -> Passage {
        let Some(place) = self.resume else {
            return Passage::Whole;
        };
        let relation = order::relation_of(visit, place, self.dnodes_per_block);
        match (relation, self.walk.order) {
            (Relation::Before, _) | (Relation::Below, Order::Post) => Passage::Done,
            (Relation::Above, Order::Pre) => Passage::Through,
            (Relation::Above, Order::Post) => Passage::Whole,
            (Relation::Same, Order::Post) => Passage::Itself,
            (Relation::Same | Relation::After, _) | (Relation::Below, Order::Pre) => Passage::Whole,
        }
    }

    /// Forgets the place to resume at when this block is reached, if it is not above it.
    fn note_reached(&mut self, visit: &Visit) {
        let is_above =
            |place| order::relation_of(visit, place, self.dnodes_per_block) == Relation::Above;
        self.resume = self.resume.filter(|place| is_above(*place));
    }

    /// Reports a block, or what is wrong with it. Returns nothing if the block is skipped, or is
    /// reported later.
    fn meet(&mut self, visit: Visit) -> Option<Event> {
        if !self.is_in_range(&visit) {
            return None;
        }
        let (is_absent, since) = (visit.is_absent(), self.root.since);
        let is_wanted = match is_absent {
            true => self.walk.holes && since.is_before_hole(&visit.pointer),
            false => since.is_before(&visit.pointer),
        };
        let passage = self.passage(&visit);
        if !is_wanted || passage == Passage::Done {
            return None;
        }
        self.note_reached(&visit);
        if is_absent {
            return (visit.part != Part::Objset).then_some(Event::Hole(visit));
        }
        if let Err(error) = visit.check() {
            return Some(self.damage(visit, DamageKind::Refused, error));
        }
        if visit.leads_on() && !self.seen.note(&visit) {
            let error = visit.repeated();
            return Some(self.damage(visit, DamageKind::Refused, error));
        }
        let is_lowest = visit.bookmark.object.0 != 0 && visit.bookmark.level <= self.walk.lowest;
        let is_entered = visit.leads_on() && !is_lowest && passage != Passage::Itself;
        match (is_entered, self.walk.order) {
            (false, _) => Some(Event::Block(visit)),
            (true, Order::Post) => self.enter(visit),
            (true, Order::Pre) => {
                self.entered = Some(visit.clone());
                (passage != Passage::Through).then_some(Event::Block(visit))
            }
        }
    }

    fn meet_object(&mut self, object: ObjectId, dnode: Arc<Dnode>) -> Option<Event> {
        let relation = self
            .resume
            .map(|place| order::relation_of_object(object, place));
        match relation {
            Some(Relation::Before) => return None,
            Some(Relation::After) => self.resume = None,
            _ => {}
        }
        self.stack.push(Frame {
            visit: None,
            below: Below::Tops(object, Arc::clone(&dnode)),
            next: 0,
            ahead: 0,
        });
        self.told = Told::Object;
        Some(Event::Object(object, dnode))
    }

    /// Goes into a block. If it cannot be read, it is left at once.
    fn enter(&mut self, visit: Visit) -> Option<Event> {
        let (below, damage) = match self.open(&visit) {
            Ok(below) => (below, None),
            Err(error) => {
                let damage = self.damage(visit.clone(), DamageKind::Unreadable, error);
                (Below::Nothing, Some(damage))
            }
        };
        self.stack.push(Frame {
            visit: Some(visit),
            below,
            next: 0,
            ahead: 0,
        });
        damage
    }

    fn open(&mut self, visit: &Visit) -> Result<Below, DmuError> {
        let contents = self.read(visit)?;
        if visit.is_indirect() {
            return Ok(Below::Entries(contents));
        }
        if visit.is_dnodes() {
            return Ok(Below::Slots(contents));
        }
        let objects = visit.objset_dnodes(&contents)?;
        if let Some((_, meta)) = objects.first() {
            self.dnodes_per_block = dnodes_per_block(meta);
        }
        Ok(Below::Objects(objects))
    }

    fn damage(&self, visit: Visit, kind: DamageKind, error: DmuError) -> Event {
        let resume = match (self.resume, kind, self.walk.order) {
            (Some(place), ..) => Some(place),
            (None, ..) if visit.part == Part::Objset => None,
            (None, DamageKind::Dnode(object), _) => {
                Some(order::of_object(visit.bookmark, object.0))
            }
            (None, _, Order::Pre) => Some(visit.bookmark),
            (None, _, Order::Post) => Some(order::first_below(&visit)),
        };
        Event::Damage(Box::new(Damage {
            visit,
            kind,
            resume,
            error,
        }))
    }

    /// The next event, or nothing if the walk met something that is not reported.
    fn step(&mut self) -> Option<Event> {
        if let Some(visit) = self.entered.take() {
            return self.enter(visit);
        }
        self.look_ahead();
        let frame = self.stack.last_mut()?;
        match frame.next_child(self.root.objset) {
            Some(Child::Block(visit)) => self.meet(visit),
            Some(Child::Object(object, dnode)) => self.meet_object(object, dnode),
            Some(Child::FreeSlots(first, count)) => {
                let behind = first.0.saturating_add(count);
                let is_due = self.resume.is_none_or(|place| behind > place.object.0);
                (self.walk.free_slots && is_due).then_some(Event::FreeSlots { first, count })
            }
            Some(Child::Damaged(object, error)) => {
                let visit = frame.visit.clone()?;
                self.told = Told::DamagedDnode;
                Some(self.damage(visit, DamageKind::Dnode(object), error))
            }
            None => {
                let left = self.stack.pop().and_then(|frame| frame.visit);
                left.filter(|_| self.walk.order == Order::Post)
                    .map(Event::Block)
            }
        }
    }

    /// Reads what the walk will read soon, if that is worth its while.
    fn look_ahead(&mut self) {
        let limit = self.cache.decoded_limit(self.walk.retention) / CACHE_SHARE;
        let bytes_max = self.walk.data_ahead.min(limit);
        let Some(frame) = self.stack.last_mut() else {
            return;
        };
        let found = frame.look_ahead(self.root.objset, bytes_max);
        if found.is_empty() {
            return;
        }
        let is_wanted = |visit: &Visit| {
            let is_kind = visit.leads_on() || bytes_max > 0;
            let is_here = !visit.is_absent() && self.is_in_range(visit);
            let is_due = self.passage(visit) != Passage::Done;
            let is_young = self.root.since.is_before(&visit.pointer);
            is_kind && is_here && is_young && is_due && visit.check().is_ok()
        };
        let mut wanted: Vec<Visit> = found.into_iter().filter(is_wanted).collect();
        let mut bytes = 0_u64;
        wanted.retain(|visit| {
            bytes = bytes.saturating_add(visit.pointer.logical_size());
            bytes <= limit
        });
        let keys = self.root.keys.as_ref();
        read_ahead::read(&self.cache, keys, self.walk.retention, wanted);
    }
}

fn dnodes_per_block(meta: &Dnode) -> u64 {
    (meta.data_block_size / DNODE_SIZE as u64).max(1)
}

impl Iterator for Ordered {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.told = Told::Other;
        if !self.is_begun {
            self.is_begun = true;
            if let Some(event) = self.begin() {
                return Some(event);
            }
        }
        while !self.stack.is_empty() || self.entered.is_some() {
            if let Some(event) = self.step() {
                return Some(event);
            }
        }
        None
    }
}

impl Frame {
    fn next_child(&mut self, objset: ObjsetId) -> Option<Child> {
        match &self.below {
            Below::Nothing => None,
            Below::Objects(objects) => {
                let (object, dnode) = objects.get(self.next)?.clone();
                self.next += 1;
                Some(Child::Object(object, dnode))
            }
            Below::Tops(object, dnode) => {
                let visit = Visit::of_dnode(objset, *object, 0, dnode, self.next)?;
                self.next += 1;
                Some(Child::Block(visit))
            }
            Below::Entries(contents) => {
                let child = self.visit.as_ref()?.child(contents, self.next)?;
                self.next += 1;
                Some(Child::Block(child))
            }
            Below::Slots(contents) => {
                let visit = self.visit.as_ref()?;
                let first = visit.slot(contents, self.next)?;
                self.next += first.slots;
                match first.found {
                    Ok(Some(dnode)) => return Some(Child::Object(first.object, dnode)),
                    Err(error) => return Some(Child::Damaged(first.object, error)),
                    Ok(None) => {}
                }
                let mut count = 1;
                while let Some(slot) = visit.slot(contents, self.next)
                    && matches!(slot.found, Ok(None))
                {
                    self.next += 1;
                    count += 1;
                }
                Some(Child::FreeSlots(first.object, count))
            }
        }
    }

    /// What comes next below this block and was not examined before; of data so many bytes.
    fn look_ahead(&mut self, objset: ObjsetId, data_bytes: u64) -> Vec<Visit> {
        let Some(visit) = &self.visit else {
            return Vec::new();
        };
        let leads_on = visit.bookmark.level.0 > 1 || visit.bookmark.object.0 == 0;
        let window = match leads_on {
            true => WINDOW,
            false => {
                let blocks = (data_bytes / visit.data_size.max(1)).min(CHILDREN_MAX);
                usize::try_from(blocks).expect("at most 1024")
            }
        };
        // By halves, so that there is always something ahead.
        if window == 0 || self.next + window / 2 < self.ahead {
            return Vec::new();
        }
        let from = self.ahead.max(self.next);
        let end = self.next + window;
        match &self.below {
            Below::Entries(contents) => {
                self.ahead = end;
                (from..end)
                    .map_while(|index| visit.child(contents, index))
                    .collect()
            }
            Below::Slots(contents) => {
                let (mut found, mut bytes, mut at) = (Vec::new(), 0_u64, from);
                while at < end
                    && let Some(slot) = visit.slot(contents, at)
                {
                    at += slot.slots;
                    let Ok(Some(dnode)) = slot.found else {
                        continue;
                    };
                    let tops = (0..)
                        .map_while(|index| Visit::of_dnode(objset, slot.object, 0, &dnode, index));
                    for top in tops {
                        bytes = bytes.saturating_add(top.pointer.logical_size());
                        if top.leads_on() || bytes <= data_bytes {
                            found.push(top);
                        }
                    }
                }
                self.ahead = at.max(end);
                found
            }
            _ => Vec::new(),
        }
    }
}
