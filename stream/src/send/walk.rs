//! The walk over a snapshot's blocks, and the records for what it visits.
//!
//! Holes have a birth like blocks, unless they always existed or were made before the pool had the
//! feature `hole_birth`. The two cases cannot be distinguished safely. OpenZFS has had bugs there,
//! and by default sends all such holes. So does this.

use super::ahead::Ahead;
use super::redacted::Lists;
use super::sending::{OLD_BLOCK_SIZE_MAX, Sending};
use super::snapshot::{Base, Resume, Snapshot};
use super::{raw, unreadable};
use crate::error::StreamError;
use crate::writer::Writer;
use cenote_base::{BlockId, Bookmark, ObjectId, Txg};
use cenote_cache::Retention;
use cenote_dmu::traverse::{Event, Ordered, Part, Root, SPILL_BLOCK, Since, Start, Visit, Walk};
use cenote_ondisk::stream::{
    Crypt, Feature, Free, FreeObjects, Object, ObjectRange, RawGeometry, Record, Redact,
    StreamFeatures, TO_THE_END, record_flags,
};
use cenote_ondisk::{BlockPointer, Dnode};
use cenote_redaction::Place;
use std::io::Write;
use std::sync::Arc;

/// Objects whose dnodes one record of a raw stream protects.
const RANGE_SLOTS: u64 = 32;
/// Numbers from here on are those of the accounting objects, which are never sent.
const ACCOUNTING: u64 = u64::MAX - 2;

/// The object under way.
struct Current {
    id: ObjectId,
    dnode: Arc<Dnode>,
}

/// Writes records for all that was born since `base`, or from `resume` on.
pub(super) fn walk(
    snapshot: &Snapshot,
    base: Option<&Base>,
    features: StreamFeatures,
    resume: Option<Resume>,
    writer: &mut Writer<impl Write>,
) -> Result<(), StreamError> {
    let since = base.map_or(Txg(0), |base| base.txg);
    let mut root = Root::of_set(&snapshot.set, Since::logical(since));
    if features.has(Feature::Raw) {
        root.keys = None;
    }
    let plan = Walk {
        holes: true,
        free_slots: true,
        retention: Retention::Pass,
        resume: resume.map(|resume| place(snapshot, resume)).transpose()?,
        ..Walk::default()
    };
    let mut out = Ahead::new(writer, snapshot.set.cache(), root.keys.clone());
    let sending = Sending::new(snapshot, features, &root);
    let block = plan.resume.map_or(0, |place| place.block.0);
    let mut lists = Lists::new(snapshot, base, resume.map(|resume| (resume, block)));
    let mut ordered = Ordered::new(Arc::clone(snapshot.set.cache()), root, plan);
    let mut current: Option<Current> = None;
    let mut dnodes: Option<(ObjectId, Vec<u8>)> = None;
    if let Some((object, _)) = resume.filter(|_| sending.is_raw()) {
        // The walk visits the object again, but not the block with its dnode.
        dnodes = sending.dnodes(&block_of(snapshot, object)?, &mut out)?;
    }
    while let Some(event) = ordered.next() {
        if let Some(place) = reached(&event) {
            lists.send_before(&sending, place, &mut out)?;
        }
        match event {
            Event::Object(ObjectId(0), _) => {}
            Event::Object(ObjectId(ACCOUNTING..), _) => ordered.pass_over(),
            Event::Object(id, dnode) => {
                sending.object(id, &dnode, dnodes.as_ref(), &mut out)?;
                current = Some(Current { id, dnode });
            }
            // Slot 0 is that of the meta-dnode, of which nothing is ever told.
            Event::FreeSlots { first, count } => {
                let begin = first.0.max(1);
                let end = first.0.saturating_add(count);
                sending.free_objects(begin, end, &mut out)?;
            }
            Event::Hole(visit) => sending.hole(&visit, current.as_ref(), &mut out)?,
            Event::Block(visit) if visit.is_dnodes() => {
                dnodes = sending.dnodes(&visit, &mut out)?;
            }
            Event::Block(visit) if visit.leads_on() => {}
            Event::Block(visit) => match &current {
                Some(now) if now.id == visit.bookmark.object => match visit.part {
                    Part::Spill => sending.spill(&visit, false, &mut out)?,
                    _ => lists.data(&sending, &visit, &now.dnode, &mut out)?,
                },
                _ => {}
            },
            Event::Damage(damage) => return Err(unreadable(damage.error)),
        }
    }
    lists.send_rest(&sending, &mut out)?;
    out.finish()
}

/// The place that the walk has reached, if something is sent of it.
fn reached(event: &Event) -> Option<Place> {
    match event {
        Event::Object(ObjectId(0), _) => None,
        Event::Object(id, _) => Some(Place::of_object(*id)),
        Event::FreeSlots { first, .. } => Some(Place::of_object(*first)),
        Event::Hole(visit) | Event::Block(visit) if visit.bookmark.object == ObjectId(0) => {
            let slots = visit.dnodes_per_block();
            let first = visit.span().0.saturating_mul(slots);
            (visit.part != Part::Objset).then_some(Place::of_object(ObjectId(first)))
        }
        Event::Hole(visit) | Event::Block(visit) => Some(Place {
            object: visit.bookmark.object,
            block: visit.span().0,
        }),
        Event::Damage(_) => None,
    }
}

/// The place in the walk of an object and an offset in it.
fn place(snapshot: &Snapshot, (object, offset): Resume) -> Result<Bookmark, StreamError> {
    let dnode = snapshot.set.dnode(object).map_err(unreadable)?;
    let size = dnode.map_or(1, |dnode| dnode.data_block_size.max(1));
    let block = BlockId(offset / size);
    Ok(Bookmark::data(snapshot.set.id(), object, block))
}

/// The block of dnodes that an object's is in.
fn block_of(snapshot: &Snapshot, object: ObjectId) -> Result<Visit, StreamError> {
    let meta = &snapshot.set.header().meta_dnode;
    let slots = meta.data_block_size / cenote_base::SECTOR_SIZE;
    let block = BlockId(object.0 / slots.max(1));
    let root = Root {
        start: Start::Dnode(ObjectId(0), Arc::new(meta.clone())),
        keys: None,
        ..Root::of_set(&snapshot.set, Since::logical(Txg(0)))
    };
    let plan = Walk::default().over(block, block);
    let walk = Ordered::new(Arc::clone(snapshot.set.cache()), root, plan);
    for event in walk {
        match event {
            Event::Block(visit) if visit.is_dnodes() => return Ok(visit),
            Event::Damage(damage) => return Err(unreadable(damage.error)),
            _ => {}
        }
    }
    Err(StreamError::Unsendable {
        problem: "the object to resume at does not exist",
    })
}

impl Sending<'_> {
    /// A block of dnodes: in raw streams how it is protected, and its contents.
    fn dnodes(
        &self,
        visit: &Visit,
        out: &mut Ahead<'_, impl Write>,
    ) -> Result<Option<(ObjectId, Vec<u8>)>, StreamError> {
        if !self.is_raw() {
            return Ok(None);
        }
        let first = visit
            .bookmark
            .block
            .0
            .saturating_mul(visit.dnodes_per_block());
        let pointer = &visit.pointer;
        let record = ObjectRange {
            first: ObjectId(first),
            slots: RANGE_SLOTS,
            to_guid: self.snapshot.guid,
            crypt: Crypt {
                salt: pointer.salt(),
                iv: pointer.iv(),
                mac: pointer.mac(),
            },
            flags: byte_order(pointer),
        };
        out.record(&Record::ObjectRange(record), &[])?;
        let contents = raw::dnodes(self.snapshot, visit)?;
        Ok(Some((ObjectId(first), contents)))
    }

    /// An object: its dnode, and that there is nothing behind its last block.
    fn object(
        &self,
        id: ObjectId,
        dnode: &Dnode,
        block: Option<&(ObjectId, Vec<u8>)>,
        out: &mut Ahead<'_, impl Write>,
    ) -> Result<(), StreamError> {
        let mut block_size = dnode.data_block_size;
        if self.is_cut(block_size) {
            block_size = OLD_BLOCK_SIZE_MAX;
        }
        let has_spill = dnode.spill.is_some_and(|spill| !spill.is_hole());
        let mut record = Object {
            object: id,
            object_type: u32::from(dnode.object_type.0),
            bonus_type: u32::from(dnode.bonus_type.0),
            block_size: u32::try_from(block_size).unwrap_or(u32::MAX),
            bonus_length: u32::try_from(dnode.bonus.len()).unwrap_or(u32::MAX),
            checksum: dnode.checksum,
            compression: dnode.compression,
            slots: u8::try_from(dnode.slots()).unwrap_or(u8::MAX),
            flags: if has_spill {
                record_flags::OBJECT_SPILL
            } else {
                0
            },
            raw_bonus_length: 0,
            to_guid: self.snapshot.guid,
            raw: RawGeometry::default(),
        };
        let mut payload = dnode.bonus.clone();
        if self.is_raw() {
            record.raw = RawGeometry {
                indirect_shift: dnode.indirect_shift,
                levels: dnode.levels,
                block_pointers: u8::try_from(dnode.block_pointers.len()).unwrap_or(u8::MAX),
                block_id_max: dnode.block_id_max.0,
            };
            payload = self.raw_bonus(id, dnode, block)?;
            record.raw_bonus_length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        }
        payload.resize(payload.len().next_multiple_of(8), 0);
        out.record(&Record::Object(record), &payload)?;
        let blocks = dnode.block_id_max.0.checked_add(1);
        if let Some(end) = blocks.and_then(|blocks| blocks.checked_mul(dnode.data_block_size)) {
            out.free(self.free(id, end, TO_THE_END))?;
        }
        match dnode.spill {
            Some(pointer) if has_spill && pointer.logical_birth() <= self.since => {
                let visit = spill_visit(self.snapshot, id, pointer);
                self.spill(&visit, true, out)
            }
            _ => Ok(()),
        }
    }

    /// The bonus area of an object as it is stored; empty if nothing is in it.
    fn raw_bonus(
        &self,
        id: ObjectId,
        dnode: &Dnode,
        block: Option<&(ObjectId, Vec<u8>)>,
    ) -> Result<Vec<u8>, StreamError> {
        if dnode.bonus.is_empty() {
            return Ok(Vec::new());
        }
        let area = block.and_then(|(first, block)| {
            let slot = usize::try_from(id.0.checked_sub(first.0)?).ok()?;
            raw::bonus_area(block, slot, dnode)
        });
        match area {
            Some(area) => Ok(area.to_vec()),
            None => Err(StreamError::Unsendable {
                problem: "an object is not in its block of dnodes",
            }),
        }
    }

    fn free(&self, object: ObjectId, offset: u64, length: u64) -> Free {
        Free {
            object,
            offset,
            length,
            to_guid: self.snapshot.guid,
        }
    }

    /// A hole, or what was redacted.
    fn hole(
        &self,
        visit: &Visit,
        current: Option<&Current>,
        out: &mut Ahead<'_, impl Write>,
    ) -> Result<(), StreamError> {
        let object = visit.bookmark.object;
        let (first, last) = visit.span();
        if object == ObjectId(0) {
            return self.free_slots(first, last, visit.dnodes_per_block(), out);
        }
        let Some(now) = current.filter(|now| now.id == object) else {
            return Ok(());
        };
        if visit.part == Part::Spill {
            return Ok(());
        }
        let size = now.dnode.data_block_size;
        let Some(offset) = first.checked_mul(size) else {
            return Ok(());
        };
        if first > now.dnode.block_id_max.0 && !now.dnode.object_type.is_metadata() {
            return Ok(());
        }
        let blocks = (last - first).checked_add(1);
        let length = blocks.and_then(|blocks| blocks.checked_mul(size));
        let length = length.filter(|length| offset.checked_add(*length).is_some());
        let free = self.free(object, offset, length.unwrap_or(TO_THE_END));
        match visit.pointer.is_redacted() {
            false => out.free(free),
            true => out.redact(Redact {
                object,
                offset,
                length: free.length,
                to_guid: free.to_guid,
            }),
        }
    }

    /// A hole in the meta-dnode: none of its objects is there.
    fn free_slots(
        &self,
        first: u64,
        last: u64,
        slots: u64,
        out: &mut Ahead<'_, impl Write>,
    ) -> Result<(), StreamError> {
        let begin = first.saturating_mul(slots);
        let end = last.saturating_add(1).saturating_mul(slots);
        self.free_objects(begin, end, out)
    }

    /// The objects from `begin` on, and before `end`, are not there.
    fn free_objects(
        &self,
        begin: u64,
        end: u64,
        out: &mut Ahead<'_, impl Write>,
    ) -> Result<(), StreamError> {
        let end = end.min(self.objects);
        if begin >= end {
            return Ok(());
        }
        out.free_objects(FreeObjects {
            first: ObjectId(begin),
            count: end - begin,
            to_guid: self.snapshot.guid,
        })
    }
}

fn byte_order(pointer: &BlockPointer) -> u8 {
    match pointer.is_little_endian() {
        true => 0,
        false => record_flags::RAW_BYTESWAP,
    }
}

/// The place of an object's spill block, which the walk leaves out as too old.
fn spill_visit(snapshot: &Snapshot, object: ObjectId, pointer: BlockPointer) -> Visit {
    Visit {
        pointer,
        bookmark: Bookmark::data(snapshot.set.id(), object, SPILL_BLOCK),
        root: 0,
        part: Part::Spill,
        fanout_shift: 0,
        data_size: 0,
    }
}
