//! Compaction: what lives of mostly dead objects moves to new ones, so that the old ones can go.
//!
//! *Which*: after a full checkpoint the counts of live sectors are exact. Objects of which less
//! than a quarter lives are chosen, and beyond that the emptiest ones while more is stored than
//! half as much again as what lives. A request costs as much as keeping some hundred KiB for a
//! month, so objects with less to gain stay.
//!
//! Damaged objects are chosen whatever lives of them, so that they go once what is damaged was
//! repaired, which puts it elsewhere.
//!
//! *How*: an object's own table says where on the device its pieces were written; pieces to which
//! the map still points are live. They are fetched whole and compared with their checks, so that
//! rot is never copied under a new name; a piece that fails stays where it is. A commit then moves
//! the addresses. The uploader makes it between two others, so the map does not change meanwhile,
//! and later writes still hide it. Survivors are never mixed with fresh data.
//!
//! *Budget*: compaction has its turn when nothing else is due, and after twice as much of what
//! writers wrote was uploaded.

use crate::chain::store_error;
use crate::core::Core;
use crate::error::{CloudError, Result};
use crate::format::checkpoint::ObjectEntry;
use crate::format::data::{DataTable, Piece};
use crate::format::{Hash, ObjectNumber, SECTOR, key};
use crate::map::{Fetched, Lookup, Place};
use crate::origin::Origin;
use crate::pack::{Chunk, pack_into_objects};
use crate::store::{Answer, Request, StoreError};
use crate::work::Work;
use std::ops::Range;
use std::sync::Arc;

/// Bytes stored for a hundred that live, above which the emptiest objects are compacted.
const STORED_PERCENT_MAX: u64 = 150;
/// Bytes at the front of an object that are fetched for its table.
const HEAD_BYTES: u64 = 64 << 10;
/// Pieces that are looked for in the map at once.
const PIECES_AT_ONCE: usize = 128;
/// Bytes of one request at most.
const GET_MAX: u64 = 8 << 20;
/// Objects that are compacted at once.
const OBJECTS_MAX: usize = 32;

/// A piece of an object with the parts of it that live.
#[derive(Debug)]
struct Survivor {
    piece: Piece,
    /// Sectors of the device.
    live: Vec<Range<u64>>,
}

impl Core {
    /// Chooses what is to be compacted. Counts are those of the full checkpoint made just now.
    pub(crate) fn plan_compaction(&self, work: &mut Work) {
        let state = self.state();
        let objects = state.map.objects().filter(|object| object.live > 0);
        let mut objects: Vec<ObjectEntry> = objects.copied().collect();
        drop(state);
        let live_bytes = |object: &ObjectEntry| (object.live * SECTOR).min(object.length);
        let share = |object: &ObjectEntry| {
            u128::from(live_bytes(object)) * 1_000_000 / u128::from(object.length.max(1))
        };
        let live: u64 = objects.iter().map(live_bytes).sum();
        let mut stored: u64 = objects.iter().map(|object| object.length).sum();
        let enough = u128::from(live) * u128::from(STORED_PERCENT_MAX) / 100;
        let gain_min = self.options.object_bytes / 64;
        let sparse = u128::from(self.options.compact_percent) * 10_000;
        objects.sort_by_key(|object| (share(object), object.number));
        work.compaction.clear();
        for object in &objects {
            let gain = object.length - live_bytes(object);
            let is_worth_it = gain >= gain_min;
            let is_sparse = share(object) < sparse || u128::from(stored) > enough;
            let key = || key::data(object.writer, object.number);
            if is_worth_it && is_sparse || self.client.is_damaged(&key()) {
                work.compaction.push_back(object.number);
                stored -= gain;
            }
        }
    }

    /// Compacts some objects.
    pub(crate) fn compact(&self, work: &mut Work) -> Result<()> {
        work.uploaded = 0;
        let mut chosen: Vec<ObjectEntry> = Vec::new();
        let mut live = 0;
        while let Some(number) = work.compaction.front() {
            let object = self.state().map.object(*number).copied();
            let bytes = object.map_or(0, |object| object.live * SECTOR);
            let is_enough = live + bytes > self.options.object_bytes && live > 0;
            if is_enough || chosen.len() == OBJECTS_MAX {
                break;
            }
            work.compaction.pop_front();
            live += bytes;
            chosen.extend(object);
        }
        let tables = self.tables(&chosen)?;
        let mut chunks = Vec::new();
        for (object, table) in chosen.iter().zip(tables) {
            let Some(table) = table else { continue };
            let survivors = self.survivors(object.number, table);
            let rescued = survivors.and_then(|survivors| self.rescue(object, &survivors));
            match rescued {
                Ok(rescued) => chunks.extend(rescued),
                // What is damaged beside it, such as a page of the map, keeps it where it is.
                Err(error) if error.damaged_object().is_some() => {}
                Err(error) => return Err(error),
            }
        }
        if chunks.is_empty() {
            return Ok(());
        }
        chunks.sort_unstable_by_key(|chunk: &Chunk| chunk.start);
        let package = pack_into_objects(&self.packing(), &chunks);
        let moved = package.objects.iter().map(|packed| packed.object.length);
        self.counters.compacted.add(moved.sum());
        drop(chunks);
        self.ensure_predecessor(work)?;
        let says = self.unchanged();
        self.commit(package, says, None)?;
        work.has_moved = true;
        Ok(())
    }

    /// The tables of objects; `None` for those that are not as they have to be.
    fn tables(&self, objects: &[ObjectEntry]) -> Result<Vec<Option<DataTable>>> {
        let wanted = objects
            .iter()
            .map(|object| (*object, 0..object.length.min(HEAD_BYTES)));
        let wanted: Vec<(ObjectEntry, Range<u64>)> = wanted.collect();
        let mut heads = self.pieces_of(&wanted)?;
        let mut longer = Vec::new();
        for (index, head) in heads.iter().enumerate() {
            let length = head
                .as_ref()
                .and_then(|head| DataTable::length_of(head).ok());
            let object = objects[index];
            if let Some(length) = length.filter(|l| *l > HEAD_BYTES && *l <= object.length) {
                longer.push((index, (object, 0..length)));
            }
        }
        let ranges: Vec<_> = longer.iter().map(|(_, range)| range.clone()).collect();
        for ((index, _), head) in longer.iter().zip(self.pieces_of(&ranges)?) {
            heads[*index] = head;
        }
        let uuid = self.identity.uuid;
        let tables = objects.iter().zip(heads).map(|(object, head)| {
            let table = DataTable::decode(uuid, object.number, &head?).ok()?;
            (table.length == object.length && table.class == object.class).then_some(table)
        });
        Ok(tables.collect())
    }

    /// Ranges of objects; `None` for those that are not there or damaged.
    fn pieces_of(&self, wanted: &[(ObjectEntry, Range<u64>)]) -> Result<Vec<Option<Arc<Vec<u8>>>>> {
        let gets = wanted.iter().map(|(object, range)| Request::Get {
            key: key::data(object.writer, object.number),
            range: Some(range.clone()),
        });
        let mut found = Vec::new();
        for (answer, (_, range)) in self.client.run(gets.collect()).into_iter().zip(wanted) {
            found.push(match answer {
                Ok(Answer::Get(bytes, _)) => {
                    Some(bytes).filter(|bytes| bytes.len() as u64 == range.end - range.start)
                }
                Err(StoreError::Damaged { .. }) => None,
                Ok(_) | Err(StoreError::NotFound) => {
                    // Another machine that took the device over may have removed it.
                    self.look_for_others()?;
                    self.check_failure()?;
                    None
                }
                Err(error) => return Err(store_error(&self.client, error)),
            });
        }
        Ok(found)
    }

    /// The pieces of an object of which something lives.
    fn survivors(&self, number: ObjectNumber, table: DataTable) -> Result<Vec<Survivor>> {
        let mut pieces = table.pieces;
        pieces.sort_unstable_by_key(|piece| piece.start);
        let mut survivors = Vec::new();
        for group in pieces.chunks(PIECES_AT_ONCE) {
            let mut missing = Vec::new();
            for piece in group {
                let mut state = self.state();
                missing.extend(state.map.pages_missing(piece.start, piece.sectors));
            }
            missing.dedup();
            let mut fetched = self.fetch_pages(&missing, Origin::Nearest)?;
            for piece in group {
                let live = self.live_of(number, piece, &mut fetched)?;
                if !live.is_empty() {
                    survivors.push(Survivor {
                        piece: *piece,
                        live,
                    });
                }
            }
        }
        Ok(survivors)
    }

    fn live_of(
        &self,
        number: ObjectNumber,
        piece: &Piece,
        fetched: &mut Fetched,
    ) -> Result<Vec<Range<u64>>> {
        let found = loop {
            let lookup = self.state().map.lookup(piece.start, piece.sectors, fetched);
            match lookup {
                Lookup::Found(found) => break found,
                Lookup::Missing(pages) => {
                    fetched.extend(self.fetch_pages(&pages, Origin::Nearest)?)
                }
            }
        };
        let is_live = |place: &Place, start: u64| match place {
            Place::Data { object, sector } => {
                *object == number && *sector == piece.sector + (start - piece.start)
            }
            _ => false,
        };
        let live = found
            .into_iter()
            .filter(|own| is_live(&own.value, own.start));
        Ok(live.map(|own| own.start..own.end()).collect())
    }

    /// The bytes that live of an object, as far as they are what was put.
    fn rescue(&self, object: &ObjectEntry, survivors: &[Survivor]) -> Result<Vec<Chunk>> {
        let mut sorted: Vec<&Survivor> = survivors.iter().collect();
        sorted.sort_unstable_by_key(|survivor| survivor.piece.sector);
        let mut gets: Vec<(ObjectEntry, Range<u64>)> = Vec::new();
        for survivor in &sorted {
            let range = bytes_of(&survivor.piece);
            match gets.last_mut() {
                Some((_, last))
                    if range.start <= last.end.saturating_add(self.options.gap_bytes)
                        && range.end.saturating_sub(last.start) <= GET_MAX =>
                {
                    last.end = last.end.max(range.end);
                }
                _ => gets.push((*object, range)),
            }
        }
        let mut found = self.pieces_of(&gets)?;
        if found.iter().any(Option::is_none) {
            // Each piece alone: what is damaged may be beside it.
            let alone = sorted.iter().map(|own| (*object, bytes_of(&own.piece)));
            gets = alone.collect();
            found = self.pieces_of(&gets)?;
        }
        let mut chunks = Vec::new();
        for survivor in sorted {
            let wanted = bytes_of(&survivor.piece);
            let holds = |range: &Range<u64>| range.start <= wanted.start && wanted.end <= range.end;
            let mut got = gets
                .iter()
                .zip(&found)
                .filter(|((_, range), _)| holds(range));
            let Some(((_, range), Some(bytes))) = got.next() else {
                if let Some(bytes) = self.rest_of(object, survivor)? {
                    let bytes = Arc::new(bytes);
                    chunks.extend(living_chunks(object, survivor, &bytes, 0));
                }
                continue;
            };
            let base = (wanted.start - range.start) as usize;
            let whole = base..base + (wanted.end - wanted.start) as usize;
            let (piece, first) = (&survivor.piece, range.start / SECTOR);
            if Hash::of(&bytes[whole]).short() != piece.check
                && !self.is_piece_whole(object.number, piece, bytes, first)?
            {
                continue;
            }
            chunks.extend(living_chunks(object, survivor, bytes, base));
        }
        Ok(chunks)
    }

    /// A piece that is not there as a whole, zeros where nothing of it lives; `None` if it cannot
    /// be shown that what lives of it is what was put.
    fn rest_of(&self, object: &ObjectEntry, survivor: &Survivor) -> Result<Option<Vec<u8>>> {
        let piece = &survivor.piece;
        let within = |sector: u64| (sector - piece.start) * SECTOR;
        let wanted = survivor.live.iter().map(|live| {
            let from = piece.sector * SECTOR + within(live.start);
            (*object, from..from + (live.end - live.start) * SECTOR)
        });
        let found = self.pieces_of(&wanted.collect::<Vec<_>>())?;
        let mut bytes = vec![0; (piece.sectors * SECTOR) as usize];
        for (live, found) in survivor.live.iter().zip(found) {
            let Some(found) = found else { return Ok(None) };
            let from = within(live.start) as usize;
            bytes[from..from + found.len()].copy_from_slice(&found);
        }
        let is_whole = self.is_piece_whole(object.number, piece, &bytes, piece.sector)?;
        Ok(is_whole.then_some(bytes))
    }

    /// Fails if the device has failed for good.
    pub(crate) fn check_failure(&self) -> Result<()> {
        match self.state().failure.is_some() {
            // Other callers get the failure that is kept.
            true => Err(CloudError::Closed),
            false => Ok(()),
        }
    }
}

/// What lives of a piece that begins at `base` of `bytes`.
fn living_chunks<'a>(
    object: &'a ObjectEntry,
    survivor: &'a Survivor,
    bytes: &'a Arc<Vec<u8>>,
    base: usize,
) -> impl Iterator<Item = Chunk> + 'a {
    survivor.live.iter().map(move |live| {
        let from = base + ((live.start - survivor.piece.start) * SECTOR) as usize;
        Chunk {
            start: live.start,
            class: object.class,
            bytes: Arc::clone(bytes),
            range: from..from + ((live.end - live.start) * SECTOR) as usize,
        }
    })
}

/// The bytes of an object that a piece has.
fn bytes_of(piece: &Piece) -> Range<u64> {
    let from = piece.sector * SECTOR;
    from..from + piece.sectors * SECTOR
}
