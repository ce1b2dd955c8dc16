//! What one redaction snapshot does not have any more of the snapshot that is redacted.
//!
//! The walk visits what was born after the snapshot. Where it reports nothing, both have the same
//! blocks. It reports the following, and for each the blocks that the snapshot has there count:
//!
//! | reported | changed |
//! | --- | --- |
//! | a data block | this block |
//! | a hole in an object | the blocks under the hole |
//! | an object | the blocks behind its last one; all, if its blocks have another size |
//! | free slots, or a hole in the tree of dnodes | all blocks of the objects there |
//!
//! An object whose number was freed and taken again needs no rule of its own: all blocks and holes
//! of the new one are younger than the snapshot, or never had a birth.

use crate::error::RedactionError;
use crate::span::{Place, Span};
use cenote_base::{BlockId, Bookmark, ObjectId, Txg};
use cenote_cache::Retention;
use cenote_dmu::ObjectSet;
use cenote_dmu::traverse::{Event, Ordered, Part, Root, Since, Visit, Walk};
use cenote_ondisk::dnode::DNODE_SIZE;
use cenote_ondisk::{Dnode, ObjectType};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Numbers from here on are those of the accounting objects, which are never sent.
const ACCOUNTING: u64 = u64::MAX - 2;

/// Whether a walk continues.
pub(crate) type Flow = Result<ControlFlow<()>, RedactionError>;

/// Takes runs of changed blocks in order; the walk ends when it breaks. Neighbours are not joined.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(Span) -> Flow;

/// Where to search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    /// From this place on.
    pub from: Place,
    /// Before this one.
    pub to: Option<Place>,
}

/// An object under way, which both have.
struct Shared {
    source: Span,
    /// The last block of the redaction snapshot's.
    last: u64,
}

/// One walk.
pub(crate) struct Changes<'a> {
    pub source: &'a Arc<ObjectSet>,
    pub redacted_by: &'a Arc<ObjectSet>,
    /// The txg of the snapshot that is redacted.
    pub since: Txg,
    pub range: Range,
    pub sink: Sink<'a>,
}

/// Whether an object has contents that may be left out.
pub(crate) fn is_contents(dnode: &Dnode) -> bool {
    [ObjectType::PLAIN_FILE, ObjectType::ZVOL].contains(&dnode.object_type)
}

/// All blocks of an object that may be left out.
fn whole(id: ObjectId, dnode: &Dnode) -> Option<Span> {
    is_contents(dnode).then_some(Span {
        object: id,
        first: 0,
        last: dnode.block_id_max.0,
        block_size: dnode.data_block_size,
    })
}

impl Changes<'_> {
    /// Gives all changes in the range to the sink. `is_cancelled` is asked for each step.
    ///
    /// # Errors
    /// If something cannot be read: nothing is known then of what is below it.
    pub fn find(mut self, is_cancelled: &dyn Fn() -> bool) -> Result<(), RedactionError> {
        let from = self.range.from;
        let root = Root::of_set(self.redacted_by, Since::logical(self.since));
        let place = Bookmark::data(self.redacted_by.id(), from.object, BlockId(from.block));
        let plan = Walk {
            holes: true,
            free_slots: true,
            retention: Retention::Pass,
            // Places of object 0 are those of the tree of dnodes, which is above all objects.
            resume: (from.object > ObjectId(0)).then_some(place),
            ..Walk::default()
        };
        let mut walk = Ordered::new(Arc::clone(self.redacted_by.cache()), root, plan);
        let mut shared: Option<Shared> = None;
        while let Some(event) = walk.next() {
            if is_cancelled() {
                return Err(RedactionError::Interrupted);
            }
            let flow = match event {
                Event::Damage(damage) => return Err(damage.error.into()),
                Event::Object(ObjectId(0), _) => ControlFlow::Continue(()),
                Event::Object(ObjectId(ACCOUNTING..), _) => {
                    walk.pass_over();
                    ControlFlow::Continue(())
                }
                Event::Object(id, dnode) => {
                    let flow = self.close(shared.take())?;
                    let flow = match flow.is_break() || self.is_behind(id) {
                        true => ControlFlow::Break(()),
                        false => self.object(id, &dnode, &mut shared)?,
                    };
                    if shared.is_none() {
                        walk.pass_over();
                    }
                    flow
                }
                Event::FreeSlots { first, count } => {
                    let end = first.0.saturating_add(count);
                    self.leave_and_free(shared.take(), (first.0, end))?
                }
                Event::Hole(visit) if visit.bookmark.object == ObjectId(0) => {
                    let ((first, last), slots) = (visit.span(), visit.dnodes_per_block());
                    let end = last.saturating_add(1).saturating_mul(slots);
                    let objects = (first.saturating_mul(slots), end);
                    self.leave_and_free(shared.take(), objects)?
                }
                Event::Hole(visit) => self.blocks(&visit, shared.as_ref())?,
                Event::Block(visit) if visit.leads_on() => ControlFlow::Continue(()),
                Event::Block(visit) => self.blocks(&visit, shared.as_ref())?,
            };
            if flow.is_break() {
                return Ok(());
            }
        }
        let meta = self.redacted_by.header().meta_dnode.clone();
        let slots = meta.data_block_size / DNODE_SIZE as u64;
        let end = meta.block_id_max.0.saturating_add(1).saturating_mul(slots);
        self.leave_and_free(shared, (end, u64::MAX)).map(drop)
    }

    fn is_behind(&self, object: ObjectId) -> bool {
        let first = Place::of_object(object);
        self.range.to.is_some_and(|to| to <= first)
    }

    fn give(&mut self, span: Span) -> Flow {
        match span.within(self.range.from, self.range.to) {
            Some(part) => (self.sink)(part),
            None => Ok(ControlFlow::Continue(())),
        }
    }

    /// An object of the redaction snapshot; `shared` is set if its blocks are to be compared.
    fn object(&mut self, id: ObjectId, dnode: &Dnode, shared: &mut Option<Shared>) -> Flow {
        let source = self.source.dnode(id)?;
        let Some((source, span)) = source.and_then(|it| whole(id, &it).map(|span| (it, span)))
        else {
            return Ok(ControlFlow::Continue(()));
        };
        if source.data_block_size != dnode.data_block_size || !is_contents(dnode) {
            return self.give(span);
        }
        *shared = Some(Shared {
            source: span,
            last: dnode.block_id_max.0,
        });
        Ok(ControlFlow::Continue(()))
    }

    /// Changed blocks of an object that both have, up to the last one of each.
    fn blocks(&mut self, visit: &Visit, shared: Option<&Shared>) -> Flow {
        let object = visit.bookmark.object;
        let Some(now) = shared.filter(|now| now.source.object == object) else {
            return Ok(ControlFlow::Continue(()));
        };
        let (first, last) = visit.span();
        let last = last.min(now.last).min(now.source.last);
        if visit.part != Part::Tree || first > last {
            return Ok(ControlFlow::Continue(()));
        }
        let source = now.source;
        self.give(Span {
            first,
            last,
            ..source
        })
    }

    /// The object is left: the blocks behind its last one are not there.
    fn close(&mut self, shared: Option<Shared>) -> Flow {
        let Some(now) = shared.filter(|now| now.last < now.source.last) else {
            return Ok(ControlFlow::Continue(()));
        };
        self.give(Span {
            first: now.last + 1,
            ..now.source
        })
    }

    /// The object is left, and none has one of these numbers.
    fn leave_and_free(&mut self, shared: Option<Shared>, objects: (u64, u64)) -> Flow {
        match self.close(shared)? {
            ControlFlow::Continue(()) => self.freed(objects),
            flow => Ok(flow),
        }
    }

    /// There are no objects with these numbers.
    fn freed(&mut self, (first, end): (u64, u64)) -> Flow {
        let first = first.max(self.range.from.object.0).max(1);
        let source = Arc::clone(self.source);
        for found in source.objects(ObjectId(first)) {
            let (id, dnode) = found?;
            if id.0 >= end || self.is_behind(id) {
                break;
            }
            if let Some(span) = whole(id, &dnode)
                && self.give(span)?.is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
