//! Where the bytes of the device are, as of the newest commit.
//!
//! Three layers, the upper hiding the lower: the *tail*, what commits have changed since the last
//! full checkpoint; the *frozen* tail, while a checkpoint merges it into pages; and the *pages*, of
//! which only the directory is always in memory. What no layer knows is zero.
//!
//! Changes go to the tail alone and never need a page. A lookup that needs pages which are not in
//! memory says which, so that they can be fetched without holding the lock under which the map is.
//!
//! Live sectors of objects are counted in pages only: they are exact at a full checkpoint.

mod merge;
mod page_cache;

pub(crate) use merge::{MergedPage, Merger};
pub(crate) use page_cache::{Page, PageKey};

use crate::extent_map::{ExtentMap, Piece, Slice};
use crate::format::checkpoint::{Base, Checkpoint, ObjectEntry, PageRef, Session};
use crate::format::commit::Commit;
use crate::format::{Class, Extent, ObjectNumber, SECTOR, Target};
use page_cache::PageCache;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Bytes that extents can be in, in memory.
#[derive(Clone, Debug)]
pub(crate) struct Blob(pub(crate) Arc<Vec<u8>>);

impl PartialEq for Blob {
    /// Whether they are the same, not whether they are alike.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Where bytes are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Place {
    /// Nowhere: they are zero.
    Hole,
    /// In a data object.
    Data {
        /// Which.
        object: ObjectNumber,
        /// Where in it, in sectors.
        sector: u64,
    },
    /// In memory, from a commit or a checkpoint.
    Inline {
        /// The bytes.
        bytes: Blob,
        /// Where in them, in sectors.
        sector: u64,
        /// What they are.
        class: Class,
    },
}

impl Slice for Place {
    fn advanced(&self, sectors: u64) -> Self {
        let mut place = self.clone();
        match &mut place {
            Self::Hole => {}
            Self::Data { sector, .. } | Self::Inline { sector, .. } => *sector += sectors,
        }
        place
    }
}

impl Place {
    fn new(target: Target, inline: &Blob) -> Self {
        match target {
            Target::Hole => Self::Hole,
            Target::Data { object, sector } => Self::Data { object, sector },
            Target::Inline { sector, class } => Self::Inline {
                bytes: inline.clone(),
                sector,
                class,
            },
        }
    }
}

/// The outcome of a lookup.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// All of the range, in order and without gaps.
    Found(Vec<Piece<Place>>),
    /// Pages that it takes.
    Missing(Vec<PageRef>),
}

/// Pages that were fetched for a lookup, whether or not the cache has room for them.
pub(crate) type Fetched = HashMap<PageKey, Page>;

/// The map.
#[derive(Debug)]
pub(crate) struct Map {
    tail: ExtentMap<Place>,
    frozen: Option<Arc<ExtentMap<Place>>>,
    pages: Arc<Vec<PageRef>>,
    cache: PageCache,
    objects: BTreeMap<ObjectNumber, ObjectEntry>,
    sessions: Vec<Session>,
    /// The next object and the number of sessions at the last full checkpoint.
    base: (ObjectNumber, usize),
    /// Objects that the last full checkpoint has and that were removed since, in order.
    removed: BTreeSet<ObjectNumber>,
    /// Bytes of inline bytes that the tail holds, at most.
    inline_held: u64,
    /// Bytes of inline bytes, labels apart, that the last checkpoint had to take along.
    inline_kept: u64,
    /// Bytes that were put into data objects or discarded since the pages were written.
    new_bytes: u64,
}

/// Bytes of an entry of the tail in memory, about.
const ENTRY_MEMORY: u64 = 100;
/// Bytes of an entry of the tail in a checkpoint, about.
const ENTRY_BYTES: u64 = 10;

impl Map {
    /// The map of a device that nothing was written to.
    pub(crate) fn new(memory_bytes: u64) -> Self {
        Self {
            tail: ExtentMap::default(),
            frozen: None,
            pages: Arc::default(),
            cache: PageCache::new(memory_bytes),
            objects: BTreeMap::new(),
            sessions: Vec::new(),
            base: (ObjectNumber(0), 0),
            removed: BTreeSet::new(),
            inline_held: 0,
            inline_kept: 0,
            new_bytes: 0,
        }
    }

    /// Adds what a checkpoint says: a full one to an empty map, a light one to its base.
    pub(crate) fn load(&mut self, checkpoint: Checkpoint) {
        for object in checkpoint.objects {
            match object.length {
                0 => self.forget(&[object.number]),
                _ => drop(self.objects.insert(object.number, object)),
            }
        }
        self.sessions.extend(checkpoint.sessions);
        self.tail = ExtentMap::default();
        self.inline_held = 0;
        if let Base::Pages(pages) = checkpoint.base {
            self.pages = Arc::new(pages);
            self.base = (checkpoint.tip.next_object, self.sessions.len());
        }
        let new = self.objects.range(self.base.0..);
        self.new_bytes = new.map(|(_, object)| object.length).sum();
        self.insert(&checkpoint.extents, checkpoint.inline);
    }

    /// Adds what a commit says.
    pub(crate) fn apply(&mut self, commit: Commit) {
        let tip = &commit.tip;
        if tip.session == tip.number {
            self.sessions.push(Session {
                writer: tip.writer,
                first: tip.number,
            });
        }
        for object in &commit.objects {
            let entry = ObjectEntry {
                number: object.number,
                writer: tip.writer,
                length: object.length,
                class: object.class,
                live: 0,
                dead_since: 0,
            };
            self.objects.insert(object.number, entry);
            self.new_bytes += object.length;
        }
        self.insert(&commit.extents, commit.inline);
    }

    fn insert(&mut self, extents: &[Extent], inline: Vec<u8>) {
        self.inline_held += inline.len() as u64;
        let inline = Blob(Arc::new(inline));
        for extent in extents {
            if extent.target == Target::Hole {
                let bytes = extent.sectors.saturating_mul(SECTOR);
                self.new_bytes = self.new_bytes.saturating_add(bytes);
            }
            let place = Place::new(extent.target, &inline);
            self.tail.insert(extent.start, extent.sectors, place);
        }
    }

    /// Where `[start, start + sectors)` is.
    pub(crate) fn lookup(&mut self, start: u64, sectors: u64, fetched: &Fetched) -> Lookup {
        let mut found = self.tail.overlaps(start, sectors);
        let mut gaps = self.tail.gaps(start, sectors);
        if let Some(frozen) = &self.frozen {
            let mut rest = Vec::new();
            for (start, sectors) in gaps {
                found.extend(frozen.overlaps(start, sectors));
                rest.extend(frozen.gaps(start, sectors));
            }
            gaps = rest;
        }
        let mut missing: Vec<PageRef> = Vec::new();
        for (start, sectors) in gaps {
            self.lookup_in_pages(start, sectors, fetched, &mut found, &mut missing);
        }
        if !missing.is_empty() {
            missing.dedup();
            return Lookup::Missing(missing);
        }
        found.sort_unstable_by_key(|piece| piece.start);
        Lookup::Found(fill_gaps(start, sectors, found))
    }

    fn lookup_in_pages(
        &mut self,
        start: u64,
        sectors: u64,
        fetched: &Fetched,
        found: &mut Vec<Piece<Place>>,
        missing: &mut Vec<PageRef>,
    ) {
        let pages = Arc::clone(&self.pages);
        for page in pages_in(&pages, start, start + sectors) {
            let key = PageKey::of(page);
            let extents = match fetched.get(&key) {
                Some(extents) => Some(Arc::clone(extents)),
                None => self.cache.get(&key),
            };
            match extents {
                Some(extents) => clip(&extents, start, start + sectors, found),
                None => missing.push(*page),
            }
        }
    }

    /// The pages that are needed for `[start, start + sectors)` and not in memory, without looking
    /// further.
    pub(crate) fn pages_missing(&mut self, start: u64, sectors: u64) -> Vec<PageRef> {
        let pages = Arc::clone(&self.pages);
        let pages = pages_in(&pages, start, start + sectors);
        let missing = pages.filter(|page| self.cache.get(&PageKey::of(page)).is_none());
        missing.copied().collect()
    }

    /// Keeps pages in memory, as far as there is room.
    pub(crate) fn keep(&mut self, fetched: &Fetched) {
        for (key, page) in fetched {
            self.cache.insert(*key, Arc::clone(page));
        }
    }

    /// A page, if it is in memory.
    pub(crate) fn page_in_memory(&mut self, page: &PageRef) -> Option<Page> {
        self.cache.get(&PageKey::of(page))
    }

    /// What is known of an object.
    pub(crate) fn object(&self, number: ObjectNumber) -> Option<&ObjectEntry> {
        self.objects.get(&number)
    }

    /// All objects in order.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &ObjectEntry> {
        self.objects.values()
    }

    /// Forgets objects that were removed from the store.
    pub(crate) fn forget(&mut self, numbers: &[ObjectNumber]) {
        for number in numbers {
            self.objects.remove(number);
            if *number < self.base.0 {
                self.removed.insert(*number);
            }
        }
    }

    /// The sessions of writers, in order.
    pub(crate) fn sessions(&self) -> &[Session] {
        &self.sessions
    }

    /// The pages, in order.
    pub(crate) fn pages(&self) -> Arc<Vec<PageRef>> {
        Arc::clone(&self.pages)
    }

    /// What has changed since the pages were written; the frozen part is not in it.
    pub(crate) fn tail(&self) -> &ExtentMap<Place> {
        &self.tail
    }

    /// Bytes of pages that are in the store.
    pub(crate) fn page_bytes(&self) -> u64 {
        self.pages.iter().map(|page| page.length).sum()
    }

    /// Bytes that the tail takes in a checkpoint, about, labels apart.
    pub(crate) fn tail_bytes(&self) -> u64 {
        self.tail.len() as u64 * ENTRY_BYTES + self.inline_kept
    }

    /// Bytes that the tail takes in memory, about.
    pub(crate) fn tail_memory(&self) -> u64 {
        self.tail.len() as u64 * ENTRY_MEMORY + self.inline_held
    }

    /// Bytes that all of the map takes in memory, about.
    pub(crate) fn memory(&self) -> u64 {
        let pages = self.pages.len() * size_of::<PageRef>();
        let objects = self.objects.len() * size_of::<ObjectEntry>();
        let frozen = self.frozen.as_ref().map_or(0, |frozen| frozen.len() as u64);
        let tables = (pages + objects) as u64 + frozen * ENTRY_MEMORY;
        self.tail_memory() + tables + self.cache.bytes()
    }

    /// Bytes that were put into data objects or discarded since the pages were written.
    pub(crate) fn new_bytes(&self) -> u64 {
        self.new_bytes
    }

    /// Bytes of objects that the pages point to.
    pub(crate) fn live_bytes(&self) -> u64 {
        let live = self.objects.values().map(|object| object.live);
        live.sum::<u64>() * SECTOR
    }

    /// Bytes of objects that are needed, at most, and whether that is exact: what changes have
    /// overwritten since the last full checkpoint is found out by the next one.
    ///
    /// Addresses may share bytes, so of no object more is needed than it has.
    pub(crate) fn needed_bytes(&self) -> (u64, bool) {
        let mut newer: HashMap<ObjectNumber, u64> = HashMap::new();
        let frozen = self.frozen.iter().flat_map(|frozen| frozen.iter());
        let mut overwrites = false;
        for piece in frozen.chain(self.tail.iter()) {
            match piece.value {
                Place::Data { object, .. } => {
                    *newer.entry(object).or_default() += piece.sectors;
                    overwrites = true;
                }
                Place::Hole => overwrites = true,
                Place::Inline { .. } => {}
            }
        }
        let needed = self.objects.values().map(|object| {
            let newer = newer.get(&object.number).copied().unwrap_or(0);
            let sectors = object.live.saturating_add(newer);
            sectors.saturating_mul(SECTOR).min(object.length)
        });
        (needed.sum(), self.pages.is_empty() || !overwrites)
    }

    /// Bytes of all objects that are not removed.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.objects.values().map(|object| object.length).sum()
    }

    /// What is new since the last full checkpoint, beside the tail.
    pub(crate) fn news(&self) -> (Vec<Session>, Vec<ObjectEntry>) {
        let (object, sessions) = self.base;
        let sessions = self.sessions.get(sessions..).unwrap_or_default().to_vec();
        let removed = self
            .removed
            .iter()
            .map(|number| ObjectEntry::removed(*number));
        let objects = self.objects.range(object..).map(|(_, entry)| *entry);
        (sessions, removed.chain(objects).collect())
    }

    /// Lets the tail be what a checkpoint of it says, which holds no bytes that are hidden.
    pub(crate) fn roll_up(
        &mut self,
        extents: &[Extent],
        inline: Vec<u8>,
        is_label: impl Fn(u64, u64) -> bool,
    ) {
        let new_bytes = self.new_bytes;
        self.tail = ExtentMap::default();
        self.inline_held = 0;
        self.insert(extents, inline);
        self.new_bytes = new_bytes;
        let kept = extents.iter().filter(|extent| {
            let is_inline = matches!(extent.target, Target::Inline { .. });
            is_inline && !is_label(extent.start, extent.sectors)
        });
        self.inline_kept = kept.map(|extent| extent.sectors * SECTOR).sum();
    }

    /// Lets the tail be merged: from now on changes go to a new one.
    pub(crate) fn freeze(&mut self) -> Arc<ExtentMap<Place>> {
        assert!(self.frozen.is_none(), "one checkpoint at a time");
        let frozen = Arc::new(std::mem::take(&mut self.tail));
        self.frozen = Some(Arc::clone(&frozen));
        frozen
    }

    /// Puts the frozen tail back below what has changed since.
    pub(crate) fn thaw(&mut self) {
        let Some(frozen) = self.frozen.take() else {
            return;
        };
        let mut whole = Arc::unwrap_or_clone(frozen);
        for piece in self.tail.iter() {
            whole.insert(piece.start, piece.sectors, piece.value);
        }
        self.tail = whole;
    }

    /// Notes that the checkpoint on which later ones build has all objects before `next`.
    pub(crate) fn rebase(&mut self, next: ObjectNumber) {
        self.base = (next, self.sessions.len());
        self.removed.clear();
    }

    /// Lets a checkpoint replace pages and frozen tail: `kept` of it stays in the tail.
    ///
    /// The counts of live sectors are those that the merging found.
    pub(crate) fn install(
        &mut self,
        pages: Vec<PageRef>,
        kept: (Vec<Extent>, Vec<u8>),
        objects: Vec<ObjectEntry>,
        next: ObjectNumber,
    ) {
        assert!(self.tail.is_empty(), "nothing is committed meanwhile");
        self.frozen = None;
        self.pages = Arc::new(pages);
        for object in objects {
            self.objects.insert(object.number, object);
        }
        self.rebase(next);
        self.inline_held = 0;
        self.insert(&kept.0, kept.1);
        self.inline_kept = 0;
        self.new_bytes = 0;
    }
}

/// The pages that may have something in `[start, end)`.
fn pages_in(pages: &[PageRef], start: u64, end: u64) -> impl Iterator<Item = &PageRef> {
    let first = pages.partition_point(|page| page.end <= start);
    pages[first..]
        .iter()
        .take_while(move |page| page.first < end)
}

/// Adds those parts of extents to `found` that lie in `[start, end)`.
fn clip(extents: &[Extent], start: u64, end: u64, found: &mut Vec<Piece<Place>>) {
    let first = extents.partition_point(|extent| extent.end() <= start);
    let none = Blob(Arc::default());
    for extent in extents[first..].iter().take_while(|own| own.start < end) {
        let from = extent.start.max(start);
        let target = extent.target.advanced(from - extent.start);
        found.push(Piece {
            start: from,
            sectors: extent.end().min(end) - from,
            value: Place::new(target, &none),
        });
    }
}

fn fill_gaps(start: u64, sectors: u64, found: Vec<Piece<Place>>) -> Vec<Piece<Place>> {
    let mut whole = Vec::new();
    let mut at = start;
    let hole = |from: u64, to: u64| Piece {
        start: from,
        sectors: to - from,
        value: Place::Hole,
    };
    for piece in found {
        if at < piece.start {
            whole.push(hole(at, piece.start));
        }
        at = piece.end();
        whole.push(piece);
    }
    if at < start + sectors {
        whole.push(hole(at, start + sectors));
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::commit::sample_tip;
    use crate::format::{CommitNumber, Hash};

    fn checkpoint(base: Base, objects: Vec<ObjectEntry>) -> Checkpoint {
        Checkpoint {
            hash: Hash::default(),
            tip: sample_tip(),
            base,
            sessions: Vec::new(),
            objects,
            oldest: CommitNumber(0),
            waste: Vec::new(),
            extents: Vec::new(),
            inline: Vec::new(),
        }
    }

    /// An object that was removed after a full checkpoint came back with each opening, and was
    /// removed once more.
    #[test]
    fn what_was_removed_does_not_come_back() {
        let entry = |number| ObjectEntry {
            length: 4096,
            ..ObjectEntry::removed(ObjectNumber(number))
        };
        let full = || checkpoint(Base::Pages(Vec::new()), vec![entry(1), entry(2), entry(3)]);
        let light = |objects| {
            let base = Base::Earlier {
                number: CommitNumber(1),
                root: Hash::default(),
            };
            checkpoint(base, objects)
        };
        let mut map = Map::new(1 << 20);
        map.load(full());
        map.forget(&[ObjectNumber(2)]);
        let news = map.news().1;
        for _ in 0..2 {
            let mut map = Map::new(1 << 20);
            map.load(full());
            map.load(light(news.clone()));
            let left: Vec<u64> = map.objects().map(|object| object.number.0).collect();
            assert_eq!(left, [1, 3]);
            assert_eq!(map.news().1, news, "the next light one says it, too");
        }
    }
}
