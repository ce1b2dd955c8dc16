//! Checkpoints: the map as of a commit is put into the store, so that opening reads few commits.
//!
//! A *light* one is made every few commits: what has changed since the pages were written, in one
//! object. (So is the first of a device; it has no pages, and later ones build on it.) A *full* one
//! merges that into pages. It is due once there is much to merge, measured by the map; once the
//! changes take much memory; or once much was written or discarded. In the last case objects have
//! probably died, and only merging finds out which. Both end with `current`, which names them. The
//! uploader makes them between two commits, so the map does not change meanwhile.
//!
//! *Inline bytes* are moved to data objects first, by a commit of their own. Labels and their rings
//! stay beside the root: they are written again with each transaction group.
//!
//! *Waste*: roots and pages that a checkpoint replaces are written down in it, and removed later
//! ([`crate::clean`]), like data objects that nothing points to.

use crate::chain::store_error;
use crate::core::{Core, State};
use crate::error::{CloudError, Result};
use crate::extent_map::ExtentMap;
use crate::format::checkpoint::{Base, Checkpoint, ObjectEntry, PART_MAX, PageRef, Part, Waste};
use crate::format::current::Current;
use crate::format::page::{self, PAGE_EXTENTS_MAX};
use crate::format::{CommitNumber, Extent, Hash, ObjectNumber, SECTOR, key};
use crate::map::{Fetched, MergedPage, Merger, Page, PageKey, Place};
use crate::origin::Origin;
use crate::pack::{Chunk, cloned, inline_extents, is_label, pack_into_objects};
use crate::store::{Answer, Condition, Put, Request, StoreError, Tag};
use crate::work::Work;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Bytes of an object with pages, about.
const PART_BYTES: usize = 16 << 20;
/// Pages that are fetched at once while merging: at 4096 extents of 40 bytes, 5 MB in memory.
const PAGES_AHEAD: usize = 32;
/// Bytes of changes in memory that never make a full checkpoint due: labels alone have a MiB.
const TAIL_MEMORY_MIN: u64 = 4 << 20;
/// A page of fewer bytes is put together with its neighbour when one of them changes.
const SMALL_PAGE: u64 = PAGE_EXTENTS_MAX as u64;

/// How much a checkpoint writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// What has changed since the last full one.
    Light,
    /// All of the map that has changed.
    Full,
}

/// What the map was when a checkpoint began.
struct Snapshot {
    number: CommitNumber,
    pages: Arc<Vec<PageRef>>,
    tail: Arc<ExtentMap<Place>>,
    size: u64,
}

impl Core {
    /// Which checkpoint is due.
    pub(crate) fn due_checkpoint(&self, work: &Work) -> Option<Size> {
        let state = self.state();
        let (map, options) = (&state.map, &self.options);
        let since = state.checkpoints.commits_since;
        if since == 0 {
            return None;
        }
        let written = (4 * options.object_bytes).max(map.live_bytes() / 8);
        let is_full_due = map.tail_bytes() > options.tail_bytes_min.max(map.page_bytes() / 8)
            || map.tail_memory() > options.map_bytes.max(TAIL_MEMORY_MIN)
            || map.new_bytes() > written
            || (work.has_moved && work.compaction.is_empty());
        if is_full_due {
            return Some(Size::Full);
        }
        (since >= options.checkpoint_commits).then_some(Size::Light)
    }

    /// Makes a checkpoint of the newest commit.
    pub(crate) fn checkpoint(&self, work: &mut Work, size: Size) -> Result<()> {
        match size {
            Size::Light => self.light_checkpoint(work)?,
            Size::Full => {
                self.learn_clock(work)?;
                self.ensure_predecessor(work)?;
                self.move_inline()?;
                let made = self.full_checkpoint(work);
                if made.is_err() {
                    self.state().map.thaw();
                }
                made?;
                work.has_moved = false;
                self.forget_damage();
            }
        }
        self.counters.checkpoints.add(1);
        Ok(())
    }

    /// Forgets damaged objects that nothing points to any more, as of a full checkpoint.
    fn forget_damage(&self) {
        if self.client.damaged().1 == 0 {
            return;
        }
        let state = self.state();
        let living = state.map.objects().filter(|object| object.live > 0);
        let data = living.map(|object| key::data(object.writer, object.number));
        let pages = state.map.pages();
        let pages = pages.iter().map(|page| page.part);
        let pages = pages.map(|part| key::pages(part.checkpoint, part.part));
        let root = state.checkpoints.full.map(|full| key::root(full.0));
        let last = state.tip.number;
        let needed: BTreeSet<String> = data
            .chain(pages)
            .chain(root)
            .chain([key::DEVICE, key::DEVICE_COPY, key::CURRENT].map(str::to_owned))
            .collect();
        drop(state);
        let is_last = |key: &str| key::commit_number(key) == Some(last);
        self.client
            .retain_damaged(|key| needed.contains(key) || is_last(key));
    }

    /// Finds out how far the store's clock is ahead, by when it says that the newest commit came.
    pub(crate) fn learn_clock(&self, work: &mut Work) -> Result<()> {
        if work.clock.is_some() {
            return Ok(());
        }
        let (number, written) = {
            let tip = &self.state().tip;
            (tip.number, tip.written)
        };
        let key = key::commit(number);
        match self.client.head(&key) {
            Ok(Some(meta)) => {
                work.clock = Some(meta.modified.cast_signed() - written.cast_signed());
                return Ok(());
            }
            Ok(None) => self.recover(work, "it is missing".to_owned())?,
            Err(StoreError::Damaged { what, .. }) => self.recover(work, what)?,
            Err(error) => return Err(store_error(&self.client, error)),
        }
        // That was put a moment ago.
        let meta = self.client.head(key::CURRENT);
        let meta = meta.map_err(|e| store_error(&self.client, e))?;
        let key = key::CURRENT.to_owned();
        let meta = meta.ok_or(CloudError::Missing { key })?;
        let now = self.client.env().wall_clock().as_secs();
        work.clock = Some(meta.modified.cast_signed() - now.cast_signed());
        Ok(())
    }

    /// The time by the store's clock, in seconds since 1970, if it is known.
    pub(crate) fn store_time(&self, work: &Work) -> Option<u64> {
        let wall = self.client.env().wall_clock().as_secs().cast_signed();
        let time = wall.saturating_add(work.clock?);
        Some(time.max(1).cast_unsigned())
    }

    /// Moves inline bytes that are no labels into data objects.
    fn move_inline(&self) -> Result<()> {
        let state = self.state();
        let size = state.tip.size;
        let mut chunks = Vec::new();
        for piece in state.map.tail().iter() {
            if is_label(size, piece.start, piece.sectors) {
                continue;
            }
            if let Place::Inline {
                bytes,
                sector,
                class,
            } = piece.value
            {
                let from = (sector * SECTOR) as usize;
                chunks.push(Chunk {
                    start: piece.start,
                    class,
                    bytes: bytes.0,
                    range: from..from + (piece.sectors * SECTOR) as usize,
                });
            }
        }
        drop(state);
        if chunks.is_empty() {
            return Ok(());
        }
        let package = pack_into_objects(&self.packing(), &chunks);
        drop(chunks);
        let says = self.unchanged();
        self.commit(package, says, None)?;
        Ok(())
    }

    fn light_checkpoint(&self, work: &Work) -> Result<()> {
        let state = self.state();
        let full = state.checkpoints.full;
        let (extents, inline) = inline_extents(state.map.tail().iter());
        let (sessions, objects) = state.map.news();
        let number = state.tip.number;
        let mut waste = self.known_waste(&state, work);
        let replaced = state.checkpoints.current.as_ref().map(|current| current.0);
        let is_base = |number: &CommitNumber| full.is_some_and(|full| full.0 == *number);
        waste.extend(replaced.filter(|old| !is_base(old)).map(root_waste));
        let checkpoint = Checkpoint {
            hash: state.hash,
            tip: state.tip.clone(),
            base: match full {
                Some((number, root)) => Base::Earlier { number, root },
                None => Base::Pages(Vec::new()),
            },
            sessions,
            objects,
            oldest: state.checkpoints.oldest,
            waste,
            extents,
            inline,
        };
        drop(state);
        let (root, tag) = self.put_checkpoint(&checkpoint)?;
        let mut state = self.state();
        let size = state.tip.size;
        if full.is_none() {
            state.checkpoints.full = Some((number, root));
            state.map.rebase(checkpoint.tip.next_object);
        }
        state
            .map
            .roll_up(&checkpoint.extents, checkpoint.inline, |start, sectors| {
                is_label(size, start, sectors)
            });
        state.checkpoints.waste = checkpoint.waste;
        state.checkpoints.current = Some((number, tag));
        state.checkpoints.commits_since = 0;
        Ok(())
    }

    fn full_checkpoint(&self, work: &mut Work) -> Result<()> {
        let snapshot = {
            let mut state = self.state();
            Snapshot {
                number: state.tip.number,
                pages: state.map.pages(),
                tail: state.map.freeze(),
                size: state.tip.size,
            }
        };
        let (pages, gains) = self.merge(&snapshot, &work.rescued)?;
        let size = snapshot.size;
        let labels = snapshot.tail.iter().filter(|piece| {
            matches!(piece.value, Place::Inline { .. })
                && is_label(size, piece.start, piece.sectors)
        });
        let (extents, inline) = inline_extents(labels);
        let now = self.store_time(work).expect("learned before");
        let state = self.state();
        let objects = counted(state.map.objects(), &gains, now);
        let mut waste = self.known_waste(&state, work);
        waste.extend(replaced(&state, &snapshot.pages, &pages, now));
        let checkpoint = Checkpoint {
            hash: state.hash,
            tip: state.tip.clone(),
            base: Base::Pages(pages),
            sessions: state.map.sessions().to_vec(),
            objects,
            oldest: state.checkpoints.oldest,
            waste,
            extents,
            inline,
        };
        drop(state);
        let (root, tag) = self.put_checkpoint(&checkpoint)?;
        let Base::Pages(pages) = checkpoint.base else {
            unreachable!("a full one");
        };
        let mut state = self.state();
        let next = checkpoint.tip.next_object;
        let kept = (checkpoint.extents, checkpoint.inline);
        state.map.install(pages, kept, checkpoint.objects, next);
        state.checkpoints.waste = checkpoint.waste;
        state.checkpoints.full = Some((snapshot.number, root));
        state.checkpoints.current = Some((snapshot.number, tag));
        state.checkpoints.commits_since = 0;
        Ok(())
    }

    /// Merges the tail into pages. Says which pages there are then, and how many sectors of which
    /// objects live more than before.
    fn merge(
        &self,
        snapshot: &Snapshot,
        rescued: &Fetched,
    ) -> Result<(Vec<PageRef>, HashMap<ObjectNumber, i64>)> {
        let sparse = sparse_parts(&snapshot.pages);
        let many = snapshot.pages.len() > 1;
        let unwanted = |page: &PageRef| {
            sparse.contains(&page.part)
                || (many && page.length < SMALL_PAGE)
                || rescued.contains_key(&PageKey::of(page))
        };
        let mut merger = Merger::new(Arc::clone(&snapshot.tail), &snapshot.pages, unwanted);
        let mut parts = Parts {
            core: self,
            number: snapshot.number,
            bytes: Vec::new(),
            part: 0,
            pages: Vec::new(),
            open: 0,
        };
        let mut ahead = rescued.clone();
        loop {
            let old = match merger.wanted() {
                Some(page) => Some(self.old_page(&page, &merger, &mut ahead)?),
                None => None,
            };
            let goes_on = merger.advance(old.as_ref());
            for page in merger.take_ready() {
                parts.add(page)?;
            }
            if !goes_on {
                break;
            }
        }
        parts.close()?;
        Ok((parts.pages, merger.into_gains()))
    }

    fn old_page(&self, page: &PageRef, merger: &Merger, ahead: &mut Fetched) -> Result<Page> {
        let key = PageKey::of(page);
        if let Some(page) = ahead.remove(&key) {
            return Ok(page);
        }
        let mut missing = merger.wanted_soon(PAGES_AHEAD);
        {
            let mut state = self.state();
            if let Some(page) = state.map.page_in_memory(page) {
                return Ok(page);
            }
            missing.retain(|page| {
                !ahead.contains_key(&PageKey::of(page)) && state.map.page_in_memory(page).is_none()
            });
        }
        ahead.extend(self.fetch_pages(&missing, Origin::Nearest)?);
        Ok(ahead.remove(&key).expect("it was fetched"))
    }

    /// The known waste; entries without a time get the present one.
    fn known_waste(&self, state: &State, work: &Work) -> Vec<Waste> {
        let now = self.store_time(work);
        let mut waste = state.checkpoints.waste.clone();
        for waste in waste.iter_mut().filter(|waste| waste.since == 0) {
            waste.since = now.unwrap_or(0);
        }
        waste
    }

    /// Puts the root and lets `current` name it. Gives the root's hash and `current`'s version.
    fn put_checkpoint(&self, checkpoint: &Checkpoint) -> Result<(Hash, Option<Tag>)> {
        let number = checkpoint.tip.number;
        let bytes = Arc::new(checkpoint.encode(self.identity.uuid));
        let root = Hash::of(&bytes);
        self.put_map_object(key::root(number), Arc::clone(&bytes))?;
        let tag = self.set_current(Current { number, root })?;
        let base = match checkpoint.base {
            Base::Earlier { number, .. } => number,
            Base::Pages(_) => number,
        };
        let roots = &mut self.state().kept.roots;
        roots.retain(|own, _| *own == base);
        roots.insert(number, bytes);
        Ok((root, tag))
    }

    fn put_map_object(&self, key: String, bytes: Arc<Vec<u8>>) -> Result<()> {
        let puts = self.client.put_new(vec![(key.clone(), bytes)]);
        match puts.map_err(|e| store_error(&self.client, e))?.pop() {
            Some(Put::Done) => Ok(()),
            _ => Err(cloned(&key)),
        }
    }

    /// Makes `current` name a checkpoint, unless it names a newer one.
    ///
    /// Some stores never accept the right version (Ceph 16 compares it with its quotes). There it
    /// is replaced without condition, once it is certain that no other writer has replaced it.
    pub(crate) fn set_current(&self, current: Current) -> Result<Option<Tag>> {
        let body = Arc::new(current.encode(self.identity.uuid));
        let known = self.state().checkpoints.current.clone();
        let mut condition = match &known {
            None => Condition::Absent,
            Some((_, Some(tag))) => Condition::Matches(tag.clone()),
            Some((_, None)) => Condition::None,
        };
        loop {
            let put = Request::Put {
                key: key::CURRENT.into(),
                body: Arc::clone(&body),
                condition: condition.clone(),
            };
            match self.client.run(vec![put]).pop() {
                Some(Ok(Answer::Put(tag))) => return Ok(tag),
                Some(Err(StoreError::Precondition | StoreError::NotFound)) => {}
                Some(Err(error)) => return Err(store_error(&self.client, error)),
                _ => unreachable!("a put has its answer"),
            }
            condition = match self.client.get(key::CURRENT) {
                // It is a hint, so what is damaged is replaced; what cannot be fails the put.
                Err(StoreError::Damaged { .. }) => {
                    self.look_for_others()?;
                    self.check_failure()?;
                    Condition::None
                }
                Err(error) => return Err(store_error(&self.client, error)),
                Ok(None) => Condition::Absent,
                Ok(Some((bytes, tag))) if bytes == body => return Ok(tag),
                Ok(Some((bytes, tag))) => {
                    let other = Current::decode(self.identity.uuid, &bytes);
                    if other.is_ok_and(|other| other.number > current.number) {
                        self.look_for_others()?;
                        self.check_failure()?;
                    }
                    let is_refused = |tag: &Tag| condition == Condition::Matches(tag.clone());
                    match tag {
                        Some(tag) if !is_refused(&tag) => Condition::Matches(tag),
                        _ => Condition::None,
                    }
                }
            };
        }
    }
}

fn root_waste(checkpoint: CommitNumber) -> Waste {
    Waste {
        checkpoint,
        part: None,
        since: 0,
    }
}

/// What a full checkpoint makes waste: the root before it, that one's base, and pages that are
/// named no more.
fn replaced(state: &State, old: &[PageRef], new: &[PageRef], now: u64) -> Vec<Waste> {
    let checkpoints = &state.checkpoints;
    let base = checkpoints.full.map(|full| full.0);
    let newest = checkpoints.current.as_ref().map(|current| current.0);
    let roots: BTreeSet<CommitNumber> = base.into_iter().chain(newest).collect();
    let parts = |pages: &[PageRef]| {
        pages
            .iter()
            .map(|page| page.part)
            .collect::<BTreeSet<Part>>()
    };
    let (old, new) = (parts(old), parts(new));
    let mut waste: Vec<Waste> = roots.into_iter().map(root_waste).collect();
    waste.extend(old.difference(&new).map(|part| Waste {
        checkpoint: part.checkpoint,
        part: Some(part.part),
        since: 0,
    }));
    for waste in &mut waste {
        waste.since = now;
    }
    waste
}

/// Objects with their counts of live sectors, exact now.
fn counted<'a>(
    objects: impl Iterator<Item = &'a ObjectEntry>,
    gains: &HashMap<ObjectNumber, i64>,
    now: u64,
) -> Vec<ObjectEntry> {
    let counted = objects.map(|object| {
        let gain = gains.get(&object.number).copied().unwrap_or(0);
        let mut object = *object;
        object.live = object.live.saturating_add_signed(gain);
        if object.live == 0 && object.dead_since == 0 {
            object.dead_since = now;
        }
        object
    });
    counted.collect()
}

/// Objects with pages of which less than a quarter is still named: the rest of their pages moves.
fn sparse_parts(pages: &[PageRef]) -> BTreeSet<Part> {
    let mut named: BTreeMap<Part, u64> = BTreeMap::new();
    for page in pages {
        *named.entry(page.part).or_default() += page.length;
    }
    let sparse = named
        .into_iter()
        .filter(|(part, bytes)| *bytes < part.length / 4);
    sparse.map(|(part, _)| part).collect()
}

/// Pages of a checkpoint on their way into objects.
struct Parts<'a> {
    core: &'a Core,
    number: CommitNumber,
    /// The object that is filled.
    bytes: Vec<u8>,
    part: u32,
    /// All pages so far; those from `open` on do not know their object's length yet.
    pages: Vec<PageRef>,
    open: usize,
}

impl Parts<'_> {
    fn add(&mut self, page: MergedPage) -> Result<()> {
        let extents: Vec<Extent> = match page {
            MergedPage::Kept(page) => {
                self.pages.push(page);
                return Ok(());
            }
            MergedPage::New(extents) => extents,
        };
        let bytes = page::encode(self.core.identity.uuid, self.number, &extents);
        if self.bytes.len() + bytes.len() > PART_BYTES {
            self.close()?;
        }
        let (Some(first), Some(last)) = (extents.first(), extents.last()) else {
            return Ok(());
        };
        let page = PageRef {
            first: first.start,
            end: last.end(),
            part: Part {
                checkpoint: self.number,
                part: self.part,
                length: 0,
            },
            offset: self.bytes.len() as u64,
            length: bytes.len() as u64,
        };
        self.bytes.extend_from_slice(&bytes);
        let key = PageKey::of(&page);
        self.pages.push(page);
        // New pages are often read soon.
        let page = Fetched::from([(key, Arc::new(extents))]);
        self.core.state().map.keep(&page);
        Ok(())
    }

    /// Puts the object that is filled.
    fn close(&mut self) -> Result<()> {
        let bytes = std::mem::take(&mut self.bytes);
        let length = bytes.len() as u64;
        assert!(length <= PART_MAX, "a part is bounded");
        let is_own = |page: &&mut PageRef| page.part.length == 0;
        for page in self.pages[self.open..].iter_mut().filter(is_own) {
            page.part.length = length;
        }
        self.open = self.pages.len();
        if length > 0 {
            let key = key::pages(self.number, self.part);
            self.core.put_map_object(key, Arc::new(bytes))?;
            self.part += 1;
        }
        Ok(())
    }
}
