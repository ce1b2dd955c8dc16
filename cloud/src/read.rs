//! Reads: from the queue, from what commits have inline, from the cache, from the store.
//!
//! Everything to fetch is fetched in one batch of requests, neighbours in one. Metadata is fetched
//! in windows: blocks written together are usually read together, and a request that is ten times
//! as long takes hardly longer than a short one.
//!
//! *Damage*: a request takes more than is wanted. So where an object is damaged, the wanted parts
//! are requested alone, and those that are there are returned.
//!
//! *Verification* reads what the store has, without any cache. What is in no commit yet is read
//! from the local log, not from memory. Ranges that are fetched ahead for it are kept in a memory
//! of their own, which is empty when a verification begins.
//!
//! An object may be removed between the lookup and the request, once compaction has moved its live
//! data. Then the lookup is done again. If it gives the same result, another writer may have
//! removed the object: the next commit's name tells.

use crate::cache::{Cache, Name};
use crate::chain::{self, store_error};
use crate::core::Core;
use crate::error::{CloudError, Result};
use crate::extent_map::Piece;
use crate::format::checkpoint::{ObjectEntry, PageRef};
use crate::format::{Class, ObjectNumber, SECTOR, key, page};
use crate::log::Payload;
use crate::map::{Fetched, Lookup, Page, PageKey, Place};
use crate::origin::Origin;
use crate::store::{Answer, Request, StoreError};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of one request at most.
const GET_MAX: u64 = 8 << 20;
/// How often a lookup is done again because what it found is gone.
const TRIES: usize = 4;

/// Where a part of a read comes from.
enum Source {
    Zero,
    Queue(Arc<Payload>, u64),
    Memory(Arc<Vec<u8>>, u64),
    Object(ObjectEntry, u64),
}

/// A part of an object that is wanted.
#[derive(Clone, Debug)]
struct Wanted {
    object: ObjectEntry,
    /// Which of its bytes.
    range: Range<u64>,
    /// Where they go to.
    at: usize,
}

/// Bytes by the object that they are in and where they begin there.
type Ranges = BTreeMap<(ObjectNumber, u64), Arc<Vec<u8>>>;

/// A request that is to be made: of which object, and which bytes.
type Fetch = (ObjectEntry, Range<u64>);

impl Core {
    /// Reads bytes at any offset.
    pub(crate) fn read(
        &self,
        offset: u64,
        buffer: &mut [u8],
        origin: Origin,
    ) -> std::result::Result<(), Arc<CloudError>> {
        if buffer.is_empty() {
            return Ok(());
        }
        // What it knew may have been taken away.
        if self.options.is_read_only && self.is_stopping.load(Ordering::Acquire) {
            return Err(Arc::new(CloudError::Closed));
        }
        self.counters.read.add(buffer.len() as u64);
        let end = offset + buffer.len() as u64;
        let first = offset / SECTOR;
        let last = end.div_ceil(SECTOR);
        if offset.is_multiple_of(SECTOR) && end.is_multiple_of(SECTOR) {
            let read = self.read_sectors(first, buffer, origin);
            return read.map_err(|error| self.noted(error));
        }
        let length = usize::try_from((last - first) * SECTOR).expect("a buffer and its borders");
        let mut whole = vec![0; length];
        let read = self.read_sectors(first, &mut whole, origin);
        read.map_err(|error| self.noted(error))?;
        let from = (offset - first * SECTOR) as usize;
        buffer.copy_from_slice(&whole[from..from + buffer.len()]);
        Ok(())
    }

    /// Lists the object that a read failed for, if it is one that is damaged.
    fn noted(&self, error: CloudError) -> Arc<CloudError> {
        if let Some((key, what)) = error.damaged_object()
            && !self.client.is_damaged(key)
        {
            self.client.note_damage(key, what);
            self.wants_repair.store(true, Ordering::Relaxed);
            self.job.wake();
        }
        Arc::new(error)
    }

    fn cache_for(&self, origin: Origin) -> &Cache {
        match origin {
            Origin::Nearest => &self.cache,
            Origin::Stored => &self.fetched,
        }
    }

    /// Forgets what was fetched for a verification before.
    pub(crate) fn forget_fetched(&self) {
        drop(self.fetched.take());
    }

    pub(crate) fn read_sectors(&self, start: u64, buffer: &mut [u8], origin: Origin) -> Result<()> {
        let sectors = buffer.len() as u64 / SECTOR;
        let mut tries = 0;
        loop {
            let mut wanted = Vec::new();
            for piece in self.resolve(start, sectors)? {
                let at = ((piece.start - start) * SECTOR) as usize;
                let length = (piece.sectors * SECTOR) as usize;
                let target = &mut buffer[at..at + length];
                match piece.value {
                    Source::Zero => target.fill(0),
                    Source::Queue(payload, sector) => {
                        let from = (sector * SECTOR) as usize;
                        match origin {
                            Origin::Nearest => payload.read(from, target)?,
                            Origin::Stored => payload.read_logged(from, target)?,
                        }
                    }
                    Source::Memory(bytes, sector) => {
                        let from = (sector * SECTOR) as usize;
                        target.copy_from_slice(&bytes[from..from + length]);
                    }
                    Source::Object(object, sector) => {
                        let from = sector * SECTOR;
                        wanted.push(Wanted {
                            object,
                            range: from..from + length as u64,
                            at,
                        });
                    }
                }
            }
            tries += 1;
            match self.fetch(&wanted, buffer, origin) {
                Err(CloudError::Missing { .. }) if tries < TRIES => {}
                Err(error @ CloudError::Missing { .. }) => {
                    self.look_for_others()?;
                    return Err(self.reason_of(error)?);
                }
                result => return result,
            }
        }
    }

    /// Why an object is missing: a reader of an older commit has limited time for that.
    fn reason_of(&self, missing: CloudError) -> Result<CloudError> {
        let state = self.state();
        let seen = state.checkpoints.current.as_ref().map(|current| current.0);
        let commit = state.tip.number;
        drop(state);
        let is_passed =
            self.options.is_read_only && chain::has_moved(&self.client, &self.identity, seen)?;
        Ok(match is_passed {
            true => CloudError::Passed(commit),
            false => missing,
        })
    }

    /// The parts of a range, in sectors, that were written and not discarded.
    pub(crate) fn mapped(&self, start: u64, sectors: u64) -> Result<Vec<Range<u64>>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for piece in self.resolve(start, sectors)? {
            if matches!(piece.value, Source::Zero) {
                continue;
            }
            match ranges.last_mut() {
                Some(last) if last.end == piece.start => last.end = piece.end(),
                _ => ranges.push(piece.start..piece.end()),
            }
        }
        Ok(ranges)
    }

    /// Where each part of a range is, in order.
    fn resolve(&self, start: u64, sectors: u64) -> Result<Vec<Piece<Source>>> {
        let mut fetched = Fetched::new();
        let mut tries = 0;
        loop {
            let missing = match self.resolve_with(start, sectors, &fetched)? {
                Ok(pieces) => return Ok(pieces),
                Err(missing) => missing,
            };
            match self.fetch_pages(&missing, Origin::Nearest) {
                Ok(new) => {
                    self.state().map.keep(&new);
                    fetched.extend(new);
                }
                // Pages that a checkpoint has replaced are removed.
                Err(CloudError::Missing { .. }) if tries < TRIES => tries += 1,
                Err(error @ CloudError::Missing { .. }) => return Err(self.reason_of(error)?),
                Err(error) => return Err(error),
            }
        }
    }

    fn resolve_with(
        &self,
        start: u64,
        sectors: u64,
        fetched: &Fetched,
    ) -> Result<std::result::Result<Vec<Piece<Source>>, Vec<PageRef>>> {
        let mut pieces = Vec::new();
        let mut missing = Vec::new();
        let mut state = self.state();
        let mut at = start;
        let pending = state.queue.overlaps(start, sectors);
        let end = start + sectors;
        let borders = pending.into_iter().map(Some).chain([None]);
        for piece in borders {
            let next = piece.as_ref().map_or(end, |piece| piece.start);
            if at < next {
                match state.map.lookup(at, next - at, fetched) {
                    Lookup::Found(found) => {
                        for piece in found {
                            let value = source(&state.map, piece.value)?;
                            pieces.push(Piece {
                                start: piece.start,
                                sectors: piece.sectors,
                                value,
                            });
                        }
                    }
                    Lookup::Missing(pages) => missing.extend(pages),
                }
            }
            if let Some(piece) = piece {
                at = piece.end();
                pieces.push(Piece {
                    start: piece.start,
                    sectors: piece.sectors,
                    value: match piece.value.bytes {
                        Some((payload, sector)) => Source::Queue(payload, sector),
                        None => Source::Zero,
                    },
                });
            }
        }
        match missing.is_empty() {
            true => Ok(Ok(pieces)),
            false => Ok(Err(missing)),
        }
    }

    /// Fetches pages of the map.
    pub(crate) fn fetch_pages(&self, pages: &[PageRef], origin: Origin) -> Result<Fetched> {
        let cache = self.cache_for(origin);
        let mut fetched = Fetched::new();
        let mut missing = Vec::new();
        for page in pages {
            let mut bytes = vec![0; usize::try_from(page.length).unwrap_or(0)];
            let name = page_name(page);
            match cache.get(name, Class::Metadata, page.offset, &mut bytes) {
                true => self.take_page(page, &bytes, &mut fetched)?,
                false => missing.push(page),
            }
        }
        let gets = missing.iter().map(|page| Request::Get {
            key: key::pages(page.part.checkpoint, page.part.part),
            range: Some(page.offset..page.offset + page.length),
        });
        let answers = self.client.get_all(gets.collect());
        let answers = answers.map_err(|e| store_error(&self.client, e))?;
        for (page, bytes) in missing.into_iter().zip(answers) {
            let key = || key::pages(page.part.checkpoint, page.part.part);
            let bytes = bytes.ok_or_else(|| CloudError::Missing { key: key() })?;
            self.take_page(page, &bytes, &mut fetched)?;
            let name = page_name(page);
            cache.insert(name, Class::Metadata, page.offset, &bytes);
        }
        Ok(fetched)
    }

    /// A page that is in the read cache, and is one.
    pub(crate) fn page_from_cache(&self, page: &PageRef) -> Option<Page> {
        let mut bytes = vec![0; usize::try_from(page.length).ok()?];
        let name = page_name(page);
        let is_here = self
            .cache
            .get(name, Class::Metadata, page.offset, &mut bytes);
        let mut fetched = Fetched::new();
        (is_here && self.take_page(page, &bytes, &mut fetched).is_ok()).then_some(())?;
        fetched.remove(&PageKey::of(page))
    }

    fn take_page(&self, page: &PageRef, bytes: &[u8], fetched: &mut Fetched) -> Result<()> {
        let extents = page::decode(self.identity.uuid, page.part.checkpoint, bytes);
        let extents = extents.map_err(|source| CloudError::Format {
            key: key::pages(page.part.checkpoint, page.part.part),
            source,
        })?;
        fetched.insert(PageKey::of(page), Arc::new(extents));
        Ok(())
    }

    /// Fills the buffer with parts of objects.
    fn fetch(&self, wanted: &[Wanted], buffer: &mut [u8], origin: Origin) -> Result<()> {
        let mut open = Vec::new();
        for part in wanted {
            let length = (part.range.end - part.range.start) as usize;
            let target = &mut buffer[part.at..part.at + length];
            let (name, class) = (name(&part.object), part.object.class);
            let cache = self.cache_for(origin);
            if !cache.get(name, class, part.range.start, target) {
                open.push(part.clone());
            }
        }
        let fetched = match self.fetch_ranges(&self.plan(&open, origin), origin) {
            Err(CloudError::Damaged { .. }) => self.fetch_ranges(&exactly(&open), origin)?,
            fetched => fetched?,
        };
        for part in open {
            let length = (part.range.end - part.range.start) as usize;
            let target = &mut buffer[part.at..part.at + length];
            copy(&fetched, &part, target)?;
        }
        Ok(())
    }

    /// The requests by which parts of objects are fetched.
    fn plan(&self, open: &[Wanted], origin: Origin) -> Vec<Fetch> {
        let widened = open.iter().map(|part| self.widened(part, origin));
        let mut ranges: Vec<Fetch> = widened.collect();
        ranges.sort_unstable_by_key(|(object, range)| (object.number, range.start));
        let mut plan: Vec<Fetch> = Vec::new();
        for (object, range) in ranges {
            if let Some((last, before)) = plan.last_mut()
                && last.number == object.number
                && range.start <= before.end.saturating_add(self.options.gap_bytes)
                && range.end.saturating_sub(before.start) <= GET_MAX
            {
                before.end = before.end.max(range.end);
                continue;
            }
            plan.push((object, range));
        }
        plan
    }

    /// What is fetched for a part: of metadata all of the windows that it lies in, as far as they
    /// are not here. An object is divided into windows, so that none is fetched twice.
    fn widened(&self, part: &Wanted, origin: Origin) -> Fetch {
        let Range { start, end } = part.range;
        if part.object.class == Class::Contents {
            return (part.object, start..end);
        }
        let window = self.options.window_bytes.max(1);
        let first = start / window * window;
        let last = end.next_multiple_of(window).min(part.object.length);
        let is_here = |range: Range<u64>| {
            let (name, length) = (name(&part.object), range.end - range.start);
            length > 0
                && self
                    .cache_for(origin)
                    .is_in_memory(name, range.start, length)
        };
        let first = if is_here(first..start) { start } else { first };
        let last = if is_here(end..last) { end } else { last };
        (part.object, first..last.max(end))
    }

    fn fetch_ranges(&self, plan: &[Fetch], origin: Origin) -> Result<Ranges> {
        let gets = plan.iter().map(|(object, range)| Request::Get {
            key: key::data(object.writer, object.number),
            range: Some(range.clone()),
        });
        let answers = self.client.run(gets.collect());
        let mut fetched = BTreeMap::new();
        let mut failed = None;
        for ((object, range), answer) in plan.iter().zip(answers) {
            match self.taken(object, range, answer) {
                Ok(bytes) => {
                    let cache = self.cache_for(origin);
                    cache.insert(name(object), object.class, range.start, &bytes);
                    fetched.insert((object.number, range.start), bytes);
                }
                // What came beside it is kept for others.
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            None => Ok(fetched),
            Some(error) => Err(error),
        }
    }

    fn taken(
        &self,
        object: &ObjectEntry,
        range: &Range<u64>,
        answer: std::result::Result<Answer, StoreError>,
    ) -> Result<Arc<Vec<u8>>> {
        let key = key::data(object.writer, object.number);
        match answer {
            Ok(Answer::Get(bytes, _)) if bytes.len() as u64 == range.end - range.start => Ok(bytes),
            Ok(Answer::Get(bytes, _)) => {
                let error = StoreError::of_length(&key, bytes.len() as u64);
                Err(store_error(&self.client, error))
            }
            Ok(_) | Err(StoreError::NotFound) => Err(CloudError::Missing { key }),
            Err(error) => Err(store_error(&self.client, error)),
        }
    }

    /// The parts of a range, in sectors, that lie in data objects: where on the device they begin,
    /// how long they are, in which object, and where in it.
    pub(crate) fn in_objects(
        &self,
        start: u64,
        sectors: u64,
    ) -> Result<Vec<(u64, u64, ObjectNumber, u64)>> {
        let pieces = self.resolve(start, sectors)?.into_iter();
        let found = pieces.filter_map(|piece| match piece.value {
            Source::Object(object, sector) => {
                Some((piece.start, piece.sectors, object.number, sector))
            }
            _ => None,
        });
        Ok(found.collect())
    }

    /// Fails for good if another writer made the next commit.
    pub(crate) fn look_for_others(&self) -> Result<()> {
        let next = self.state().tip.number.next();
        let found = match self.client.get(&key::commit(next)) {
            // Without the right to list names, Amazon refuses reads of free names. Another writer
            // is met at the next commit.
            Err(StoreError::Damaged { .. }) => None,
            found => found.map_err(|e| store_error(&self.client, e))?,
        };
        let Some((bytes, _)) = found else {
            return Ok(());
        };
        let commit = crate::format::commit::Commit::decode(self.identity.uuid, next, &bytes);
        let is_ours = commit.is_ok_and(|commit| commit.tip.writer == self.writer);
        if !is_ours && !self.options.is_read_only {
            self.fail(self.fenced_by(next, &bytes));
        }
        Ok(())
    }

    /// Fetches ranges of the device so that later reads find them.
    pub(crate) fn prefetch(&self, ranges: &[Range<u64>], origin: Origin) -> Result<()> {
        let cache = self.cache_for(origin);
        let sectors = ranges.iter().filter_map(|range| {
            let start = range.start / SECTOR;
            let sectors = range.end.div_ceil(SECTOR).saturating_sub(start);
            (sectors > 0).then_some((start, sectors))
        });
        let sectors: Vec<(u64, u64)> = sectors.collect();
        let mut missing = Vec::new();
        for (start, sectors) in &sectors {
            missing.extend(self.state().map.pages_missing(*start, *sectors));
        }
        missing.dedup();
        let pages = self.fetch_pages(&missing, Origin::Nearest)?;
        self.state().map.keep(&pages);
        let mut wanted = Vec::new();
        for (start, sectors) in sectors {
            for piece in self.resolve(start, sectors)? {
                let Source::Object(object, sector) = piece.value else {
                    continue;
                };
                let range = sector * SECTOR..(sector + piece.sectors) * SECTOR;
                let length = range.end - range.start;
                if cache.is_in_memory(name(&object), range.start, length) {
                    continue;
                }
                let part = Wanted {
                    object,
                    range,
                    at: 0,
                };
                let mut bytes = vec![0; length as usize];
                match cache.get(name(&object), object.class, part.range.start, &mut bytes) {
                    true => cache.keep(name(&object), part.range.start, Arc::new(bytes)),
                    false => wanted.push(part),
                }
            }
        }
        let plan = self.plan(&wanted, origin);
        for ((number, start), bytes) in self.fetch_ranges(&plan, origin)? {
            let object = plan.iter().find(|(object, _)| object.number == number);
            if let Some((object, _)) = object.filter(|(own, _)| own.class == Class::Contents) {
                cache.keep(name(object), start, bytes);
            }
        }
        Ok(())
    }
}

/// The requests that fetch parts of objects and nothing beside them.
fn exactly(open: &[Wanted]) -> Vec<Fetch> {
    let mut plan: Vec<Fetch> = open
        .iter()
        .map(|part| (part.object, part.range.clone()))
        .collect();
    plan.sort_unstable_by_key(|(object, range)| (object.number, range.start, !range.end));
    plan.dedup_by_key(|(object, range)| (object.number, range.start));
    plan
}

fn page_name(page: &PageRef) -> Name {
    Name::Pages(page.part.checkpoint, page.part.part)
}

fn name(object: &ObjectEntry) -> Name {
    Name::Data(object.writer, object.number)
}

fn source(map: &crate::map::Map, place: Place) -> Result<Source> {
    Ok(match place {
        Place::Hole => Source::Zero,
        Place::Inline { bytes, sector, .. } => Source::Memory(bytes.0, sector),
        Place::Data { object, sector } => match map.object(object) {
            Some(entry) => Source::Object(*entry, sector),
            None => {
                let key = format!("the entry of data object {} in the map", object.0);
                return Err(CloudError::Missing { key });
            }
        },
    })
}

/// Copies a part from what was fetched.
fn copy(
    fetched: &BTreeMap<(ObjectNumber, u64), Arc<Vec<u8>>>,
    part: &Wanted,
    target: &mut [u8],
) -> Result<()> {
    let number = part.object.number;
    let before = fetched.range(..=(number, part.range.start)).next_back();
    let bytes = before.filter(|((own, _), _)| *own == number);
    let bytes = bytes.and_then(|((_, start), bytes)| {
        let from = (part.range.start - start) as usize;
        bytes.get(from..from + target.len())
    });
    let bytes = bytes.expect("each part is within a range that was fetched");
    target.copy_from_slice(bytes);
    Ok(())
}
